//! What operators see of the process: metrics, traces and logs.

pub mod export;
pub mod http;
pub mod logs;
pub mod metrics;
pub mod spans;
