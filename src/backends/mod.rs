//! Implementations of the traits in `ports`: a folder for each kind of storage, and the wrappers around any store.

pub mod coalescing;
pub mod cql;
pub mod creates_file;
pub mod instrumented;
pub mod memory;
mod niceness;
pub mod purging;
mod read_schedule;
pub mod redb;
pub mod redis;
pub mod rendering;
mod sharing;
