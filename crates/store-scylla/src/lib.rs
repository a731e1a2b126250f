//! Pages in ScyllaDB, or in Cassandra 5, so that any number of replicas can serve them.
//!
//! # One row a page
//!
//! A page, or its tombstone, is one row. A change is one conditional write (a lightweight transaction) of every column, if
//! `revision` and `write_ids` are still as read. So each change is done completely or not at all, and no change is lost.
//!
//! # Why a plain read shows every acknowledged write
//!
//! A conditional write is a round of Paxos among the copies (`LOCAL_SERIAL`, or `SERIAL` with `--scylla-consistency global`),
//! then a commit at a quorum of the same copies (`LOCAL_QUORUM`, `QUORUM`). A read asks a quorum, and any two quorums share a
//! copy. Such a read costs one round trip; a serial read would cost three and disturb writes.
//!
//! A write with an unknown outcome may be on one copy only. A read that sees it first writes it to a quorum (blocking read
//! repair, the default of both servers), so no later read is older. A decided round that is not committed is invisible to plain
//! reads, which is harmless: its writer has no answer yet. The next conditional write or serial read completes it.
//!
//! # Why two lists of columns
//!
//! Cassandra repairs only selected columns. A repair by `row::HEAD` can leave a copy with the head of one write and the text of an
//! earlier one. Both begin with the revision of their write, so a reader notices, and reads the row serially, which makes it whole.
//! ScyllaDB repairs whole rows. The lists never change: a new field of a page is a member of the head's JSON.
//!
//! # When deleted text leaves the disks
//!
//! A tombstone empties the text, so no query returns it. `docs/operate-cluster.md` says when the bytes go.

mod checks;
mod conditional_write;
mod connect;
mod connected;
mod journal;
mod login;
pub mod migrate;
mod row;
mod scan;
pub mod schema;
mod session;
mod settings;
mod store;

pub use checks::findings;
pub use connect::{ConnectError, Progress};
pub use migrate::{LOCK_WAIT, MigrateError, Report, migrate, migrate_with};
pub use session::{Limits, builder};
pub use settings::{ScyllaConsistency, ScyllaSettings, SettingsError};
pub use store::ScyllaStore;
