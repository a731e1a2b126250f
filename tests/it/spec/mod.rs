//! The sections of the specification, as far as any client can check them.
//!
//! `it` runs them against one process, `services::replicas` some of them against three replicas. Rules that a
//! client cannot check through a network are in `tests/it/controlled`.

pub(crate) mod agreement;
pub(crate) mod authentication;
pub(crate) mod bodies;
pub(crate) mod codings;
pub(crate) mod concurrency;
pub(crate) mod conditional;
pub(crate) mod cors;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod discovery;
pub(crate) mod documented;
pub(crate) mod documents;
pub(crate) mod errors;
pub(crate) mod form;
pub(crate) mod formatting;
pub(crate) mod limits;
pub(crate) mod openapi;
pub(crate) mod order;
pub(crate) mod read;
pub(crate) mod repeat;
pub(crate) mod resources;
pub(crate) mod site;
pub(crate) mod states;
pub(crate) mod token;
pub(crate) mod token_limits;
pub(crate) mod update;
