//! The specification again, against three replicas of the real binary behind the load balancer: whatever a client can
//! see must be as it is with one process.
//!
//! The tests are those of `tests/it/spec`. Their target, `app`, sends each request over a connection of its own to the
//! load balancer, which gives each connection to the next replica. The replicas share a Redis and a keyspace of three
//! database nodes, which `./tests/run` starts. For each setting of the limits that a test asks for, replicas are
//! started once, and they end with this process.
//!
//! `./tests/run` leaves out sections about bodies, formats and documents (`IN_ONE_PROCESS` there says why). Before a
//! release, `./tests/run --whole` runs them all.
//!
//! After the tests, `scrape` checks the metrics of the replicas.
//!
//! Tests that need control of time, randomness, faults, the store or the peer's address are in `tests/it/controlled`.
//! `tests/services/redis` checks the windows of shared limits by the rules by which `tests/it/contract` checks those of
//! one process, and `tests/services/cluster` takes nodes and replicas away, which nothing here does.

pub(crate) mod app;
mod round_robin;
mod scrape;
mod services;
#[path = "../../it/spec/mod.rs"]
mod spec;
