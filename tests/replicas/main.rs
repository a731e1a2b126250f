//! The specification again, against three replicas of the real binary behind the load balancer: whatever a client can see
//! must be as it is with one process.
//!
//! The tests are those of `tests/spec/sections.rs`, compiled with a `support::app` of their own, which sends each request
//! over a connection of its own to the load balancer; that gives each to the next replica. The replicas share a keyspace
//! of three database nodes, which `./tests/run` starts, and a Redis; they are started once for each setting of the limits
//! that a test asks for, and end with this process.
//!
//! After the tests their metrics are looked at (`scrape`).
//!
//! What a network cannot give stays in `tests/spec/in_hand`: time, chance, faults, a look into the store, other peers.
//! `tests/redis` holds the windows of shared limits to the same rules as `tests/contract` does those of one process,
//! and `tests/cluster` takes nodes and replicas away, which nothing here does.

mod app;
#[path = "../support/connection.rs"]
mod connection;
#[path = "../support/deployment.rs"]
mod deployment;
#[path = "../support/exposition.rs"]
mod exposition;
#[path = "../support/replica.rs"]
#[expect(dead_code, reason = "a service ends with the process, so nobody stops a replica")]
mod replica;
mod round_robin;
mod scrape;
#[path = "../spec/sections.rs"]
mod sections;
mod services;
mod support;
