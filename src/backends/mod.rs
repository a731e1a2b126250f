//! Implementations of the traits in `ports`: a folder for each kind of storage, and the wrappers around any store.

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
