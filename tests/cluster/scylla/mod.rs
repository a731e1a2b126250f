//! The page store on a real server, which `./tests/run` starts. Without one every test fails.

pub(crate) mod faults;
mod journal;
mod login;
mod migrations;
mod operations;
mod outcomes;
mod scan;
pub(crate) mod server;
mod shapes;
mod starting;
mod traffic;
