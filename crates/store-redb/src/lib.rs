//! The default store: it needs no other server. Pages are in one file of the data directory.
//!
//! | part | data | where |
//! |---|---|---|
//! | [`RedbStore`] | pages and tombstones | one `redb` file, through one writer thread |
//!
//! # How a write becomes durable
//!
//! A caller queues its operation and waits. One writer thread takes all queued operations and applies them in one
//! transaction, in which each operation sees the effects of those before it. The thread commits once and only then
//! answers each caller. Operations that arrive during the commit form the next batch. So under load many callers share
//! one pair of fsyncs, and without load nobody waits.
//!
//! Commits have two phases. With a single phase, only the file's checksums would distinguish a torn commit from a
//! complete one. These checksums are not cryptographic, and strangers choose the bytes that they cover. Each commit
//! also saves the allocator's state (`redb` calls it quick repair). Opening after a crash then reads only the file's
//! header and that state, however large the file is. (A build with debug assertions reads the whole file at every
//! opening, because `redb` then checks itself.)
//!
//! # How a cached page is known to be current
//!
//! The store remembers the current states of pages that were read lately (`known_states`), so that a page that is ready
//! in memory is sent without a read. The writer takes a page's state out before a commit that may change it.
//!
//! # Where lookups run
//!
//! A lookup whose bytes `redb` or the kernel has in memory runs on the thread of its caller ([`RedbStore`]'s `lookup_now`,
//! `no_wait`). Any other lookup runs on a thread that may wait for the disk, at most 64 at a time.
//!
//! # What happens when the disk fails or is full
//!
//! After any I/O error `redb` refuses a file until it is reopened, so the writer reopens it. Each batch writes its
//! number to the file. After a failed commit this number shows whether the commit was done. If the file can be opened
//! for reading only, lookups continue and writes are refused as unavailable. At every batch and every second the writer
//! tries to open it for writing, so that service resumes without a restart.
//!
//! On a full volume deletions go on: they have a reserve of room that no other write uses.
//!
//! If damage prevents opening the file, or if the writer thread has panicked, waiting does not help. The store then
//! ends, [`RedbStore::fatal_error`] returns the reason, and the process exits for its supervisor.
//!
//! # What happens when the file is damaged
//!
//! Each record has its own checksum, which also covers its slug, and every read verifies it. A flipped bit is
//! [`crate::ports::page_store::StoreError::Unreadable`], never another text. `redb` has checksums of its pages, but
//! verifies them only when it repairs a file, not when it reads. So damage outside the records is noticed only if
//! `redb` cannot make sense of it: `redb` then returns an error or panics. The panic is caught, and both are
//! `Unreadable`. If a damaged key hides its record, a second table still shows that the slug was used. Two faults
//! remain: a damaged page number can make `redb` reserve up to 4 GiB before it finds the end of the file, and a second
//! panic during the cleanup of the first ends the process after it has printed one line.
//!
//! # When deleted text leaves the disk
//!
//! The transaction that deletes a page replaces it by its tombstone. No later request can read the old bytes. But a `redb`
//! file is copy-on-write: the bytes remain in a freed part of the file until a later write reuses that part. This may never
//! happen if the service is no longer written to. [`compact`] writes a new file without them, with the service stopped, and
//! the file system gets the blocks of the old one, which may keep the bytes until they are reused. Backups keep their copies.
//!
//! # Why no deleted page returns from a backup
//!
//! Each tombstone is also in a ledger beside the database, which is no part of a backup (see `ledger.rs`).

mod check;
mod compact;
mod creates_switch;
mod data_dir;
mod error;
mod expected;
mod folders;
mod jobs;
mod known_states;
mod ledger;
mod ledger_file;
mod no_wait;
mod opening;
mod overlay;
mod packed_text;
mod page_file;
mod panics;
mod reading;
mod record;
mod remains;
mod reserve;
mod scan;
mod shared;
mod size;
mod slug_secret;
mod storage;
mod store;
mod tables;
mod tombstone_count;
mod unlogged;
mod upkeep;
mod visibility;
mod writer;

use handbill_core::{domain, ports};

pub use check::{Checked, check};
pub use compact::{Compacted, compact};
pub use data_dir::DATABASE_FILE;
pub use error::{OpenError, WriterError};
pub use ledger_file::{LEDGER_FILE, LedgerFile, read_ledger_in_background};
pub use no_wait::{may_wait, would_wait};
pub use shared::Committed;
pub use size::{RecordCount, Room};
pub use storage::{Storage, StoreMemory};
pub use store::RedbStore;
pub use upkeep::{Restoring, begin_anew};
