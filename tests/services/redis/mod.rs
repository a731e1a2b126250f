//! The limiter and the reservations in Redis, on real servers.
//!
//! The servers that all tests share are those that `./tests/run` starts. Tests that take a server away start one of
//! their own.

mod faults;
mod limiter;
mod login;
mod replicas;
mod reservations;
mod servers;
mod window;
