//! What stands behind the traits of `store`, `limits` and `reservations`: one folder for each server or library.

pub mod embedded;
pub mod measured;
pub mod redis;
pub mod scylla;
pub mod single_flight;
