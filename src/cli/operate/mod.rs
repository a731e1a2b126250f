//! The operators' commands. They ask the running process through its operators' listener, work on the cluster itself, or
//! work on the files of a store that no process uses.

pub(super) mod audit;
mod client;
pub(super) mod creates;
mod criteria;
pub(super) mod failover;
pub(super) mod inspect;
mod lines;
pub(super) mod moving;
pub(super) mod takedown;
pub(super) mod upkeep;
