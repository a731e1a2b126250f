//! The executable specification: one module for each section of it, one test for each rule, named as the rule.
//!
//! Every test runs against the real router, in this process, with time in its hand. Every answer that any of them sees
//! is held against the OpenAPI document too.

mod agreement;
mod authentication;
mod bodies;
mod concurrency;
mod conditional;
mod cors;
mod create;
mod delete;
mod discovery;
mod documents;
mod errors;
mod formatting;
mod limits;
mod openapi;
mod order;
mod outages;
mod read;
mod resources;
mod site;
mod states;
mod token;
mod token_limits;
mod update;

#[expect(dead_code, reason = "what only the tests of the tools need is there too")]
#[path = "../support/mod.rs"]
mod support;
