//! Tests that need servers, tools or the real binary. `./tests/run` starts and installs what they need; plain `cargo
//! test` does not run them. A test whose server is missing fails; none is skipped.

mod browser;
mod clients;
mod cluster;
mod contract;
mod linearizability;
mod operating;
mod process;
mod redis;
mod scylla;

mod collector;
mod connection;
mod deployment;
mod environment;
mod port;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/unlimited.rs"]
mod unlimited;
