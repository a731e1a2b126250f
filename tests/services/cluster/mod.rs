//! Three replicas of the real binary behind the real load balancer, over three database nodes and Redis: what holds
//! across replicas, and what becomes of it when nodes, Redis or replicas go away.
//!
//! `./tests/run` starts the database nodes. Tests take turns, for they harm them; each starts replicas, Redis and load
//! balancer of its own and leaves the nodes as they come.

mod calls;
mod consistency;
mod faults;
mod linearizability;
mod mcp;
mod nodes;
mod rollout;
mod service;
mod traces;
