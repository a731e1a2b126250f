//! The fence: only the replicas of one datacentre write.
//!
//! Every write of a page is decided by the replicas of one datacentre (`LOCAL_SERIAL`). Quorums of two datacentres share no
//! copy, so if both wrote, each would overwrite what the other had acknowledged. The table `fence` names the datacentre that
//! writes, in five rows with a partition each ([`PARTITIONS`]), so that two lost nodes stop no write because they hold the row.
//! `handbill migrate` writes the rows, and `handbill failover` changes all of them, one after the other.
//!
//! Each replica reads the rows every two seconds, needs one of them, and believes the highest epoch that it has ever seen. It
//! sends a write only while its last successful read is younger than a [lease](lease). While the keyspace has copies in one
//! datacentre alone, nobody could write elsewhere. Then the replica does not read the rows, which a quorum of their copies
//! would have to show; it only asks any one node, as often, whether there is still one datacentre.
//!
//! `docs/internals/decisions/0015-a-fence-between-datacentres.md` has the reasons.

mod lease;
pub(super) mod placement;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

pub use self::lease::Fenced;
use self::lease::Lease;
pub(super) use self::lease::{FenceRow, LATE_WRITES, LEASE};
use super::migrate::schema::COMPONENT;
use crate::ports::page_store::{Cause, StoreError};
use crate::settings::FenceConsistency;

/// The keys of the rows. Whoever changes the first one of them changes the others after it.
pub(super) const PARTITIONS: [&str; 5] = [COMPONENT, "handbill 2", "handbill 3", "handbill 4", "handbill 5"];

/// How often a replica reads the fence. Four reads may fail before its lease ends.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// Longest time for one read of the fence.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The fence as a replica sees it. The replica reads it repeatedly until this value is dropped.
pub struct Fence {
    pub(super) datacenter: String,
    shared: Arc<Shared>,
    reader: AbortHandle,
}

struct Shared {
    session: Arc<Session>,
    keyspace: String,
    placement: PreparedStatement,
    read: PreparedStatement,
    lease: Mutex<Lease>,
    state: watch::Sender<Option<Fenced>>,
}

impl Fence {
    /// The fence of `keyspace` for a replica of `datacenter`. It has been read once, perhaps without success, and is
    /// read repeatedly from now on.
    pub async fn open(
        session: Arc<Session>,
        keyspace: &str,
        datacenter: &str,
        consistency: FenceConsistency,
    ) -> Result<Self, PrepareError> {
        let cql = format!("SELECT datacenter, epoch, moving_to FROM {keyspace}.fence WHERE component = ?");
        let mut read = session.prepare(Statement::new(cql)).await?;
        read.set_consistency(match consistency {
            FenceConsistency::LocalQuorum => Consistency::LocalQuorum,
            FenceConsistency::Quorum => Consistency::Quorum,
        });
        read.set_request_timeout(Some(READ_TIMEOUT));
        read.set_is_idempotent(true);
        let placement = placement::prepare(&session, READ_TIMEOUT).await?;
        let (keyspace, lease) = (keyspace.to_owned(), Mutex::new(Lease::new(datacenter)));
        let (state, _) = watch::channel(Some(Fenced::Unread));
        let shared = Arc::new(Shared { session, keyspace, placement, read, lease, state });
        shared.refresh().await;
        let reading = Arc::clone(&shared);
        let reader = tokio::spawn(async move { reading.keep_reading().await }).abort_handle();
        Ok(Self { datacenter: datacenter.to_owned(), shared, reader })
    }

    /// Whether a write may be sent now.
    pub(super) fn check(&self) -> Result<(), Fenced> {
        self.shared.lease.lock().check(Instant::now())
    }

    /// Whether a write is acknowledged only once a quorum of each datacentre has it: a planned move has begun, which copies what was
    /// written before, and has not ended.
    pub(super) fn confirms(&self) -> bool {
        self.shared.lease.lock().confirms()
    }

    /// Why this replica may not write, whenever that changes; `None` while it may.
    pub fn state(&self) -> watch::Receiver<Option<Fenced>> {
        self.shared.state.subscribe()
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Shared {
    async fn keep_reading(&self) {
        let mut ticks = interval(READ_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once, and the fence was just read.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.refresh().await;
        }
    }

    async fn refresh(&self) {
        let began = Instant::now();
        match self.read().await {
            Ok(Standing::Alone(datacenter)) => self.lease.lock().found_alone(began, datacenter),
            Ok(Standing::Fenced(row)) => self.lease.lock().found(began, row),
            Err(error) => tracing::debug!(%error, "the fence could not be read"),
        }
        let refused = self.lease.lock().check(Instant::now()).err();
        self.state.send_if_modified(|state| {
            let has_changed = *state != refused;
            *state = refused;
            has_changed
        });
    }

    async fn read(&self) -> Result<Standing, Cause> {
        let mut datacenters = placement::datacenters(&self.session, &self.placement, &self.keyspace).await?;
        if let (Some(only), true) = (datacenters.pop(), datacenters.is_empty()) {
            return Ok(Standing::Alone(only));
        }
        let rows = join_all(PARTITIONS.map(|key| self.row(key))).await;
        let (found, failed): (Vec<_>, Vec<_>) = rows.into_iter().partition(Result::is_ok);
        match failed.into_iter().next() {
            Some(Err(cause)) if found.is_empty() => Err(cause),
            _ => Ok(Standing::Fenced(found.into_iter().filter_map(Result::ok).flatten().max_by_key(|row| row.epoch))),
        }
    }

    async fn row(&self, key: &str) -> Result<Option<FenceRow>, Cause> {
        let answer = self.session.execute_unpaged(&self.read, (key,)).await?;
        Ok(answer.into_rows_result()?.maybe_first_row()?)
    }
}

/// The rule that says who writes.
enum Standing {
    /// The only datacentre with copies.
    Alone(String),
    /// The newest of the rows that could be read, if there is one.
    Fenced(Option<FenceRow>),
}

impl From<Fenced> for StoreError {
    fn from(fenced: Fenced) -> Self {
        Self::Fenced(Box::new(fenced))
    }
}

/// The statement that makes a row of the fence of `keyspace`, if it is not there. It binds the key and the datacentre.
pub(super) fn creation(keyspace: &str) -> Statement {
    let columns = "(component, datacenter, epoch)";
    let mut statement =
        Statement::new(format!("INSERT INTO {keyspace}.fence {columns} VALUES (?, ?, 1) IF NOT EXISTS"));
    statement.set_consistency(Consistency::Quorum);
    statement.set_serial_consistency(Some(scylla::statement::SerialConsistency::Serial));
    statement
}
