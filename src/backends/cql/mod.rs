//! Pages in ScyllaDB or Cassandra, so that any number of replicas can serve them.
//!
//! | part | what it is |
//! |---|---|
//! | `connect` | reaching the cluster and waiting for its schema |
//! | `session` | login, TLS, time limits, which nodes are asked, repeated reads |
//! | `statements`, `rows` | every statement on pages with its consistency; rows to pages and back |
//! | `pages` | the three operations of the store |
//! | `lwt`, [`write_outcome`] | a write until its outcome is certain; what each error means for it |
//! | [`migrate`] | `migrations/`, and `handbill migrate` |
//!
//! # Why a read at `LOCAL_QUORUM` shows every acknowledged write
//!
//! Every write of a row is a lightweight transaction: a round of Paxos among the row's replicas in the datacentre
//! (`LOCAL_SERIAL`), then a commit that is acknowledged only when a quorum of them has it (`LOCAL_QUORUM`). A read at
//! `LOCAL_QUORUM` asks a quorum, two quorums of the same replicas share one, and the newest value wins, by the rounds'
//! own numbers, which only grow. So a read that begins after the acknowledgement shows that write or a later one, from
//! whichever replica of Handbill. It costs one round trip; a read at `LOCAL_SERIAL` would cost three and disturb writes.
//!
//! It is not enough that acknowledged writes are seen. A write whose outcome nobody knows may have reached one replica
//! only. A read whose quorum has that replica shows it; a later one with another quorum would not, and a reader would go
//! back in time. Blocking read repair prevents it: when the replicas asked differ, the coordinator writes the newest
//! value to a quorum before it answers. ScyllaDB always does so, Cassandra by the table's option `read_repair`, which the
//! migrations set.
//!
//! A round that was accepted by a quorum and not yet committed is decided, though no plain read shows it. That is harmless:
//! its writer has not been told, so as far as anyone can see it has not happened yet. The next transaction on the row
//! finishes it first, commits included, and so does a read at `LOCAL_SERIAL`. Hence:
//!
//! * A compare-and-set that is refused was refused because of a value that is committed at a quorum by then, so the plain
//!   lookup that follows it shows that value.
//! * Whether a write of unknown outcome was done can be read at `LOCAL_SERIAL` only. A plain read would miss a decided
//!   round, and call a write undone that becomes visible later. This is the one place that reads so.
//!
//! # How a write is recognised
//!
//! Each write carries 128 random bits, its nonce, and the row keeps those of its last 16 writes, each under the version
//! that it made modulo 16. As every write raises the version by one, a write takes the place of the one 16 before it, and
//! no write has to know the nonces that are there. [`write_outcome`] and `lwt` say what is done with them.
//!
//! # When deleted text leaves the disks
//!
//! Deleting sets everything that the page said to null in the same transaction that makes the tombstone. No request can
//! read it from then on. The bytes lie in the data files of each replica until it compacts them, after the table's
//! `gc_grace_seconds` (10 days unless changed) at the earliest, in the commit log until its segment is reused, in
//! the Paxos state of the row until that expires or the next write, and in snapshots until they are removed.

mod connect;
mod lwt;
pub mod migrate;
mod rows;
mod session;
mod statements;
mod store;
pub mod write_outcome;

pub use connect::{ConnectError, PendingStore, Progress};
pub use migrate::{LeaseError, LeaseTimes, MigrateError, Report, enter_keyspace, migrate, migrate_with};
pub use session::{CqlTimeouts, SettingsError, builder};
pub use store::CqlStore;
