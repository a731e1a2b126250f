//! The tools, for clients of every revision of the Model Context Protocol: one module for each topic, one test for
//! each rule, named as the rule.
//!
//! Every test runs against the real router, in this process. `client` checks each answer against the rules for all
//! answers, and each result against the output schema of its tool.

mod arguments;
mod callers;
#[path = "../support/mcp.rs"]
mod client;
mod errors;
mod handshake;
mod headers;
mod limits;
mod order;
mod refusals;
#[path = "../support/revision.rs"]
mod revision;
mod tools;

#[expect(dead_code, reason = "what only the tests of REST need is there too")]
#[path = "../support/mod.rs"]
mod support;
