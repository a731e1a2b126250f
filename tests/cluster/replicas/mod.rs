//! Three replicas of the real binary behind the real load balancer, over three database nodes and Redis: the rules that
//! hold across replicas, and the service during outages of nodes, Redis and replicas.
//!
//! `./tests/run` starts the database nodes. A test here may harm them, so it has them alone. Each test starts
//! replicas, Redis and a load balancer of its own.

pub(crate) mod calls;
mod clocks;
mod faults;
mod linearizability;
mod nemesis;
mod nodes;
mod rollout;
mod service;
mod upkeep;
