//! Wrappers around any store, and the threads that render. The stores and the limiter are crates of their own.

pub use handbill_limiter as redis;
pub use handbill_limiter::memory;
pub use handbill_store_cql as cql;
pub use handbill_store_redb as redb;
pub use handbill_store_redb::creates_file;

pub mod coalescing;
pub mod instrumented;
pub mod purging;
mod read_schedule;
pub mod rendering;
mod sharing;
