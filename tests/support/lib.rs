//! What the test programs share: `it`, `process`, `cluster` and `foreign`.

pub mod client;
pub mod connection;
pub mod environment;
pub mod histories;
pub mod interruption;
pub mod journal;
pub mod known;
pub mod pages;
pub mod port;
pub mod scans;
pub mod server;
