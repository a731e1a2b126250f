//! Tests that need nothing but Rust. `cargo test` runs them.
//!
//! - `spec` is the executable specification: one module for each section, one test for each rule, named as the rule. It
//!   holds what any client can see. `services::replicas` runs some of it against three replicas.
//! - `controlled` holds the rules of these sections that need control of time, randomness, faults, the store or the
//!   peer's address. They run against one process in this program only.
//! - `mcp` tests the tools, `security` hostile input, `contract` the backends that run in the process.
//! - `admin` tests the operators' API, `listener` connections.

use self::in_process::app::target;

mod admin;
mod contract;
mod controlled;
mod in_process;
mod listener;
mod mcp;
mod security;
mod spec;
#[path = "../support/mod.rs"]
mod support;
