//! What stands behind the traits of `store`, `limits`, `reservations` and `renderer`: one folder for each server or
//! library.

pub mod coalescing;
pub mod cql;
pub mod instrumented;
pub mod memory;
pub mod redb;
pub mod redis;
