//! Implementations of the traits in `ports`: one folder for each kind of storage, and one file for each wrapper.

pub mod coalescing;
pub mod cql;
pub mod creates_file;
pub mod instrumented;
pub mod memory;
pub mod purging;
mod read_schedule;
pub mod redb;
pub mod redis;
mod sharing;
