//! Three replicas of the real binary behind the real load balancer, over three database nodes and Redis: what holds
//! across replicas, and what becomes of it when nodes, Redis or replicas go away.
//!
//! `./tests/run` starts the database nodes. Tests take turns, for they harm them; each starts replicas, Redis and load
//! balancer of its own and leaves the nodes as they come.

mod calls;
#[path = "../support/collector.rs"]
#[expect(dead_code, reason = "what becomes of a collector that misbehaves is shown in tests/process")]
mod collector;
#[path = "../support/connection.rs"]
mod connection;
mod consistency;
#[path = "../support/deployment.rs"]
mod deployment;
mod faults;
#[path = "../linearizability/histories/mod.rs"]
mod histories;
mod linearizability;
mod mcp;
mod nodes;
#[path = "../support/replica.rs"]
mod replica;
#[path = "../support/revision.rs"]
mod revision;
mod rollout;
mod service;
mod traces;
