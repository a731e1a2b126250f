//! The sections of the specification, as far as any client can hold a service to them.
//!
//! `tests/spec` compiles them against one process, `tests/replicas` against three replicas behind a load balancer: each
//! brings its own `support::app`, and what a network cannot give is not in the latter's.

pub(crate) mod agreement;
pub(crate) mod authentication;
pub(crate) mod bodies;
pub(crate) mod concurrency;
pub(crate) mod conditional;
pub(crate) mod cors;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod discovery;
pub(crate) mod documents;
pub(crate) mod errors;
pub(crate) mod formatting;
pub(crate) mod limits;
pub(crate) mod openapi;
pub(crate) mod order;
pub(crate) mod read;
pub(crate) mod resources;
pub(crate) mod site;
pub(crate) mod states;
pub(crate) mod token;
pub(crate) mod token_limits;
pub(crate) mod update;
