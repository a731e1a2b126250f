//! Sections of the specification again, against three replicas of the real binary behind the load balancer: limits, and
//! pages that replicas share, must be as they are with one process. The other sections are the same code in each process.
//!
//! Their target, `app`, sends each request over a connection of its own to the load balancer, which gives each
//! connection to the next replica. The replicas share a Redis and a keyspace of three database nodes, which
//! `./tests/run` starts. For each setting of the limits that a test asks for, replicas are started once, and they end
//! with this process. `tests/services/cluster` takes nodes and replicas away, which nothing here does.

pub(crate) mod app;
mod round_robin;
mod services;
mod spec;
