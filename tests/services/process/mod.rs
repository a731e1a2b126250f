//! The real binary as a process: what it prints, how it starts, serves, drains, dies and comes back.
//!
//! Nothing here sleeps: a test waits for what the process shows, a line, an answer, the end of a connection, its exit.
//! [`TEST_TIMEOUT`](crate::environment::TEST_TIMEOUT) is only the point at which it gives up.

mod attack;
mod bridge;
mod cli;
pub(crate) mod client;
mod commands;
mod connections;
mod crash;
mod damage;
mod drain;
mod frozen;
mod logs;
mod metrics;
pub(crate) mod moving;
pub(crate) mod operators;
mod scrub;
mod shell;
pub(crate) mod support;
mod traces;
