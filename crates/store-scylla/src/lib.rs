//! Pages in ScyllaDB, or in Cassandra 5, so that any number of replicas can serve them.
//!
//! | part | content |
//! |---|---|
//! | `store`, `statements`, `row` | the operations, their statements, and a page as a row |
//! | `conditional`, `write_outcome`, `write_ids` | a write from its first attempt to a certain outcome; what each error of the driver means |
//! | `journal` | deletions, takedowns, hiding and showing, in a table of their own |
//! | `scan` | every record, one batch after another |
//! | `settings`, `login`, `session`, `connect`, `copies`, `checks` | the way to the cluster, and what is checked at the start |
//! | `schema`, `migrate`, `lock` | `migrations/` and `handbill migrate` |
//!
//! # One row a page
//!
//! A page, or its tombstone, is one row. Every change of it is one conditional write (a lightweight transaction) of every column but the
//! text, and of the text if that changes. The condition is that `revision` and `write_ids` are those that were read. So each change is
//! done wholly or not at all, and no change is lost.
//!
//! # Why a plain read shows every acknowledged write
//!
//! A conditional write is a round of Paxos among the copies (`LOCAL_SERIAL`, or `SERIAL` with `--scylla-consistency global`), then a
//! commit that a quorum of the same copies has acknowledged (`LOCAL_QUORUM`, `QUORUM`). A read asks a quorum. Any two quorums share a
//! copy, and the newest value wins. Such a read costs one round trip; a serial read would cost three and disturb writes.
//!
//! A write with an unknown outcome may be on one copy only. A read whose quorum has that copy shows the write, and first writes it to a
//! quorum (blocking read repair, the default of both servers), so that no later read shows an older value.
//!
//! A round is decided as soon as a quorum has accepted it, even before its commit. A plain read does not show the value of the round
//! before that commit. This is harmless: the writer has no answer yet. The next conditional write of the row first completes the round,
//! and so does a serial read.
//!
//! # Why two lists of columns
//!
//! Cassandra's read repair writes only the columns that were selected. Two lists are ever selected at a quorum: all columns, and all but
//! the text. A repair by the second leaves a copy with the head of one write and the text of an earlier one. The text begins with the
//! revision that made it, so a reader notices, and reads the row once more serially, which makes it whole. `ScyllaDB` repairs whole rows.
//!
//! # When deleted text leaves the disks
//!
//! The write of a tombstone empties the text. From then on no query returns it. `docs/operate-cluster.md` says when the bytes go.

mod checks;
mod conditional;
mod connect;
mod copies;
mod journal;
mod lock;
mod login;
pub mod migrate;
mod row;
mod scan;
pub mod schema;
mod session;
mod settings;
mod statements;
mod store;
mod write_ids;
mod write_outcome;

pub use checks::findings;
pub use connect::{ConnectError, Progress, ReachError};
pub use lock::{LockError, LockTimes};
pub use migrate::{MigrateError, Report, migrate, migrate_with};
pub use session::{Limits, builder};
pub use settings::{ScyllaConsistency, ScyllaSettings, SettingsError};
pub use store::ScyllaStore;
