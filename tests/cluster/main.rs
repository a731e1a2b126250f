//! Tests that need servers: CQL, Redis, and replicas at three nodes. `./tests/run` starts what they need. A test whose server is
//! missing fails; none is skipped.

mod contract;
mod deployment;
mod operating;
mod redis;
mod replicas;
mod scylla;
