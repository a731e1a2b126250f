//! The default store: an SQLite database in the data directory.
//!
//! | file | content |
//! |---|---|
//! | `handbill.sqlite3`, with `-wal` and `-shm` while used | pages, tombstones and settings |
//! | `journal.jsonl` | each deletion, takedown, hiding and showing |
//! | `handbill.lock` | the lock of the process that uses the directory |
//!
//! # How a write becomes durable
//!
//! One writer thread commits all waiting operations in one transaction, with WAL and `synchronous=FULL`, and then
//! answers each. If SQLite refused the commit (full volume, locked file), nothing changed. After other errors the log
//! may have the whole transaction, so the writer overwrites it there by a small commit. If that fails too, the answer
//! is [`StoreError::OutcomeUnknown`](handbill_pages::ports::page_store::StoreError::OutcomeUnknown).
//!
//! # When deleted text leaves the disk
//!
//! No request can read it once the deletion was answered. SQLite overwrites it (`secure_delete`) when it applies its
//! log, which is emptied at a clean stop and a minute after a deletion or an update, or later if another program reads
//! all the time. The file system may keep freed blocks, and backups keep their copies.

mod change;
mod database;
mod directory;
mod error;
mod journal;
mod marks;
mod row;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use database::Counts;
pub use directory::{DATABASE_FILE, JOURNAL_FILE};
pub use error::{OpenError, StoreEnded};
pub use store::SqliteStore;
