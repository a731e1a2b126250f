//! The rules for every backend, on the backends that need servers: the page store on ScyllaDB or Cassandra, limits in Redis.

mod backends;
#[path = "../../it/contract/rules/mod.rs"]
mod rules;
