//! Tests that need nothing but Rust. `cargo test` runs them.
//!
//! - `spec` is the executable specification: one module for each section, one test for each rule, named as the rule.
//! - `mcp` tests the tools, `security` hostile input, `contract` the backends that run in the process.
//! - `admin` tests the operators' API, `listener` connections.
//! - `in_process` is the service under test and a client of it.

mod admin;
mod contract;
mod in_process;
mod listener;
mod mcp;
mod security;
mod spec;
