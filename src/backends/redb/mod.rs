//! Everything in this process, and pages in one file of the data directory: the default, with no other server.
//!
//! | part | what it keeps | where |
//! |---|---|---|
//! | [`RedbStore`] | pages and tombstones | one `redb` file, through one writer thread |
//! | [`super::memory::MemoryRateLimiter`] | admitted attempts | memory, bounded; a restart forgets them |
//! | [`super::memory::MemorySlugReservations`] | slugs of creates in flight | memory, bounded; a restart forgets them |
//!
//! # How a write becomes durable
//!
//! A caller queues its operation and waits. One writer thread takes all that is queued, applies it in one transaction,
//! each operation seeing those before it, commits once, and only then answers each. While it commits the next batch
//! gathers, so that under load one pair of fsyncs serves many callers, and without load nobody waits for company.
//!
//! Commits are in two phases: strangers choose the bytes, and with one phase the file's non-cryptographic checksums
//! alone would tell a torn commit from a whole one. Each commit also saves the allocator's state (`redb` calls it quick
//! repair), so that opening after a crash reads no more than the file's header and that state, however large the file.
//! (A build with debug assertions reads all of it at every opening: `redb` then checks itself.)
//!
//! # What happens when the disk fails or is full
//!
//! `redb` refuses a file after any I/O error until it is opened anew, so the writer opens it anew. Each batch leaves
//! its number in the file: reading it back tells whether a commit that failed was made. Where the file can be
//! opened for reading only, lookups go on from it and writes are refused as unavailable; the writer tries to open it
//! for writing at every batch and every second, so that service resumes by itself.
//!
//! Where the file was damaged so that it cannot be opened any more, or the writer thread panicked, no waiting helps: the
//! store ends, [`RedbStore::failed`] says why, and the process exits for its supervisor.
//!
//! # What happens when the file is damaged
//!
//! Each record has a checksum of its own, over its slug too, which every read verifies: a flipped bit is
//! [`crate::ports::page_store::StoreError::Unreadable`], never another text. `redb` has checksums of its pages, but verifies them only
//! when it repairs a file, not when it reads. So damage to the pages between the records is found only where it makes no
//! sense: `redb` then returns an error or panics, which is caught and is `Unreadable` too. Where a damaged key hides its
//! record, a second table still knows that the slug was used. What remains: a damaged page number may make `redb` reserve
//! up to 4 GiB before it finds that the file ends earlier, and a second panic while the first is cleaned up ends the
//! process, by one line.
//!
//! # When deleted text leaves the disk
//!
//! Deleting replaces the page by its tombstone in the same transaction. No request can read the old bytes from then on,
//! but a `redb` file is copy-on-write: they stay in a freed part of the file until a later write reuses that part,
//! which may be never on a service that is no longer written to. Compaction (`redb`'s `compact`, with the service
//! stopped) moves what is in use together and gives the rest back to the file system, whose blocks may keep the bytes
//! until it reuses them. Backups keep what they copied.

mod data_dir;
mod folders;
mod overlay;
mod panics;
mod record;
mod storage;
mod store;
mod tables;
mod writer;

pub use data_dir::{DATABASE_FILE, OpenError};
pub use storage::Storage;
pub use store::RedbStore;
pub use writer::{Committed, WriterError};
