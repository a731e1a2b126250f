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
//! One writer thread commits all operations that wait in one transaction, with WAL and `synchronous=FULL`, and then answers each
//! (`writer.rs`). A failed commit changed nothing if SQLite refused it, because the volume is full or the file is locked. After any
//! other error the transaction may be whole in SQLite's log, where a restart would find it. So the writer commits something small, which
//! overwrites the transaction there. If that fails too, the answer is
//! [`StoreError::OutcomeUnknown`](handbill_pages::ports::page_store::StoreError::OutcomeUnknown).
//!
//! # Where reads run
//!
//! On a thread that may wait for the disk, at most 16 at a time. A page that is ready in the page cache needs no read: the writer
//! tells the cache of each change.
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
mod row;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use database::Counts;
pub use directory::{DATABASE_FILE, DatabaseFile, JOURNAL_FILE, MovedError};
pub use error::{OpenError, StoreEnded};
pub use store::SqliteStore;
