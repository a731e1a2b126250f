//! Pages in ScyllaDB or Cassandra, so that any number of replicas can serve them.
//!
//! | part | content |
//! |---|---|
//! | `connect`, `pending` | waits for the cluster and its schema; the store until then |
//! | `session` | login, TLS, time limits, choice of nodes, repeated reads |
//! | `statements`, `rows` | every statement on pages with its consistency; rows to pages and back |
//! | `store` | the three operations of the store |
//! | `lwt`, `write_outcome` | runs a write until its outcome is certain; the meaning of each error for it |
//! | `migrate` | `migrations/` and `handbill migrate` |
//!
//! # Why a read at `LOCAL_QUORUM` shows every acknowledged write
//!
//! Every write of a row is a lightweight transaction: a round of Paxos among the row's replicas in the datacentre
//! (`LOCAL_SERIAL`), then a commit that is acknowledged only after a quorum of them has it (`LOCAL_QUORUM`). A read at
//! `LOCAL_QUORUM` asks a quorum. Any two quorums share a replica, and the newest value wins. The numbers of the rounds,
//! which only grow, decide which value is the newest. So a read that starts after the acknowledgement shows that write
//! or a later one, through any replica of Handbill. Such a read costs one round trip; a read at `LOCAL_SERIAL` would
//! cost three and disturb writes.
//!
//! Seeing acknowledged writes is not enough. A write with an unknown outcome may be on one replica only. A read whose quorum
//! has that replica shows the write; a later read with another quorum would show an older value. Blocking read repair
//! prevents this: if the replicas differ, the coordinator writes the newest value to a quorum before it answers. ScyllaDB
//! always does this. Cassandra does it by the table's option `read_repair`, which a migration sets.
//!
//! A round is decided as soon as a quorum has accepted it, even before its commit. A plain read does not show the value
//! of the round before that commit. This is harmless: the writer has no answer yet, so nobody can know that the round
//! is decided. The next transaction on the row first completes and commits it, and so does a read at `LOCAL_SERIAL`.
//! Therefore:
//!
//! * When a compare-and-set is refused, the value that caused the refusal is already committed at a quorum. A plain
//!   lookup after the refusal shows that value.
//! * Only a read at `LOCAL_SERIAL` shows whether a write with an unknown outcome was done. A plain read would miss a
//!   decided round, and the write would become visible later. No other read of a page uses this consistency.
//!
//! # How a write is recognised
//!
//! Each write has 128 random bits, its nonce. The row keeps the nonces of its last 16 writes, each under the version
//! that its write made, modulo 16. Every write raises the version by one, so a write replaces the nonce of the 16th
//! write before it and does not need to know the other nonces. `write_outcome` and `lwt` say how nonces are used.
//!
//! # When deleted text leaves the disks
//!
//! The transaction that makes the tombstone also sets all columns with the page's text to null. No later request can read
//! the text. The bytes remain in the data files of each replica until their compaction, at the earliest after the table's
//! `gc_grace_seconds` (10 days by default). They also remain in the commit log until its segment is reused, in the row's
//! Paxos state until that expires or the next write, and in snapshots until these are removed.

mod connect;
mod lwt;
pub mod migrate;
mod pending;
mod rows;
mod secrets;
mod session;
mod statements;
mod store;
mod write_outcome;

pub use connect::{ConnectError, Progress};
pub use migrate::{LeaseError, LeaseTimes, MigrateError, Report, enter_keyspace, migrate, migrate_with};
pub use pending::PendingStore;
pub use session::{CqlTimeouts, SettingsError, builder};
pub use store::CqlStore;
