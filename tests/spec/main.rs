//! The executable specification: one module for each section of it, one test for each rule, named as the rule.
//!
//! Every test runs against the real router, in this process. Every answer that any of them sees is held against the
//! OpenAPI document too.
//!
//! `sections` holds what any client can see, and runs a second time in `tests/replicas`, where the same requests go to
//! three replicas behind a load balancer. `in_hand` holds what needs time, chance, faults or peers in hand, and runs
//! here alone.

mod in_hand;
// By its path, so that its modules are beside it.
#[path = "sections.rs"]
mod sections;

#[expect(dead_code, reason = "what only the tests of the tools need is there too")]
#[path = "../support/mod.rs"]
mod support;
