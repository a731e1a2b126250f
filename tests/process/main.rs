//! The real binary as a process: what it prints, how it starts, serves, drains, dies and comes back. These tests need `setpriv`
//! and curl besides Rust.
//!
//! Nothing here sleeps: a test waits for what the process shows, a line, an answer, the end of a connection, its exit.
//! [`TEST_TIMEOUT`](handbill_test_support::environment::TEST_TIMEOUT) is only the point at which it gives up.

mod attack;
mod bridge;
mod cli;
mod collector;
mod commands;
mod connections;
mod crash;
mod damage;
mod drain;
mod frozen;
mod linearizability;
mod logs;
mod metrics;
mod moving;
mod operators;
mod scrub;
mod shell;
mod traces;
