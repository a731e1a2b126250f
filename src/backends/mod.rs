//! What stands behind the traits of `store`, `limits`, `reservations` and `renderer`: one folder for each server or
//! library.

pub mod measured;
pub mod memory;
pub mod redb;
pub mod redis;
pub mod render_threads;
pub mod scylla;
pub mod single_flight;
