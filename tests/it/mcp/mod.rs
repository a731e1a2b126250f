//! The tools, for clients of every revision of the Model Context Protocol: one module for each topic, one test for
//! each rule, named as the rule.
//!
//! `client` checks each answer against the rules for all answers, and each result against the output schema of its
//! tool.

mod arguments;
mod callers;
pub(crate) mod client;
mod errors;
pub(crate) mod hosted;
mod order;
mod parts;
mod refusals;
mod tools;
