//! Pages in ScyllaDB or Cassandra, so that any number of replicas can serve them.
//!
//! | part | content |
//! |---|---|
//! | `connect`, `pending` | waits for the cluster and its schema; the store until then |
//! | `copies` | refuses a keyspace whose copies are in several datacentres |
//! | `server_checks` | the servers' own settings, checked at the start |
//! | `session` | login, TLS, time limits, choice of nodes, repeated reads |
//! | `statements`, `rows` | every statement on pages with its consistency; rows to heads, texts and pages, and back |
//! | `store`, `requests`, `replace` | the operations of the store; their requests, sent until they are answered; the replacement of a head |
//! | `texts`, `recent` | the operations on texts; the heads that were seen last |
//! | `lwt`, `write_outcome`, `nonces` | runs the write of a head until its outcome is certain; the meaning of each error for it |
//! | `scan`, `import` | every record, one batch after another; records of other stores |
//! | `ledger`, `creates` | deletions, and whether pages may be created |
//! | `slug_secret` | the secret from which slugs of pages with keys of clients are derived |
//! | `operated_statements`, `single_attempts` | the statements of these, and their conditional writes |
//! | `bulkhead`, `gate`, `permit` | which operations run at once, so that one sick partition or hot page leaves the others alone |
//! | `retry_budget` | how many requests may be sent again |
//! | `write_times`, `sweep` | the timestamps of texts and their deletions; finds the texts that crashes leave |
//! | `ring`, `keys` | the parts in which a whole table is read; the keys of all heads and texts |
//! | `migrate` | `migrations/` and `handbill migrate` |
//!
//! # Heads and texts
//!
//! The table `pages` has for each slug the page's **head**, or its tombstone: everything that answers a 304, a 404, a 410, a key or a
//! precondition, and the key of the page's text. The table `texts` has the **texts**: content and HTML. All texts of a slug are
//! one partition.
//!
//! * A head is written only by lightweight transactions, and each of them writes every column that is or was set, none as null. So
//!   whatever the replicas of a head have missed, merging them by timestamp yields a head that one write has made.
//! * A text is inserted once under a key of its own, at `LOCAL_QUORUM`, *before* the head that points to it is written, and
//!   never changes. So a reader that has a head finds its text, or the text was replaced meanwhile and the reader reads
//!   the head again.
//! * A text is deleted only when it is certain that no head points to it, or ever will: after the head that replaces it
//!   was written, or after the write that would have pointed to it was certainly refused.
//!
//! No table is written both ways.
//!
//! # Why a read at `LOCAL_QUORUM` shows every acknowledged write
//!
//! Every write of a head is a lightweight transaction: a round of Paxos among its replicas in the datacentre, which is the only
//! one with copies (`LOCAL_SERIAL`), then a commit that is acknowledged only after a quorum of them has it (`LOCAL_QUORUM`). A read at
//! `LOCAL_QUORUM` asks a quorum. Any two quorums share a replica, and the newest value wins. The numbers of the rounds,
//! which only grow, decide which value is the newest. So a read that starts after the acknowledgement shows that write
//! or a later one, through any replica of Handbill. Such a read costs one round trip; a read at `LOCAL_SERIAL` would
//! cost three and disturb writes.
//!
//! Seeing acknowledged writes is not enough. A write with an unknown outcome may be on one replica only. A read whose quorum
//! has that replica shows the write; a later read with another quorum would show an older value. Blocking read repair
//! prevents this: if the replicas differ, the coordinator writes the newest value to a quorum before it answers. ScyllaDB
//! always does this. Cassandra does it by the table's option `read_repair`, whose default is `BLOCKING`.
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
//! Each write has 128 random bits, its nonce. The head keeps the nonces of its last 16 writes, the newest first. Every
//! write raises the version by one, so a nonce's place shows which version its write made. A writer knows the nonces before
//! its own, because its write is conditional on the head that it has read. `write_outcome` and `lwt` say how nonces are
//! used. An import can skip versions, or replace a record by another of the same version; then the list begins again.
//!
//! # When deleted text leaves the disks
//!
//! A deletion is noted in the ledger before the head is written and entered there afterwards, before the
//! client is answered.
//!
//! After the write of the tombstone all texts of the page are deleted, with a timestamp just above the page's own, before
//! the client is answered. From then on no query returns them. `docs/operate-cluster.md` says for each server when the
//! bytes go.

mod bulkhead;
mod check;
mod connect;
mod copies;
mod creates;
mod gate;
mod import;
mod keys;
mod ledger;
mod lwt;
pub mod metrics;
pub mod migrate;
mod nonces;
mod operated_statements;
mod pending;
mod permit;
mod recent;
mod replace;
mod request_error;
mod requests;
mod retry_budget;
mod ring;
mod rows;
mod scan;
mod secrets;
mod server_checks;
mod session;
mod settings;
mod settings_error;
mod share_scan;
mod single_attempts;
mod slug_secret;
mod statements;
mod store;
mod sweep;
mod texts;
mod write_outcome;
mod write_times;

use handbill_core::{domain, ports};

pub use check::{CheckReport, check};
pub use connect::{ConnectError, Progress, ReachError};
pub use migrate::{LeaseError, LeaseTimes, MigrateError, Report, enter_keyspace, migrate, migrate_with};
pub use pending::PendingStore;
pub use ring::{Share, ShareError};
pub use server_checks::findings;
pub use session::{CqlTimeouts, builder};
pub use settings::CqlSettings;
pub use settings_error::SettingsError;
pub use share_scan::{Scanned, ShareScan};
pub use store::CqlStore;
pub use sweep::{SweepError, SweepPlan, SweepReport, sweep};
pub use write_times::SHORTEST_AGE;
