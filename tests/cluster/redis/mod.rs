//! The limiter in Redis, on real servers.
//!
//! All tests share the servers that `./tests/run` starts. A test that stops a server starts its own.

mod faults;
mod limiter;
mod login;
mod replicas;
mod reservations;
pub(crate) mod servers;
mod window;
