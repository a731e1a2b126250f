//! The lock of `migrate`: a row with a number that its holder raises again and again.
//!
//! No clocks are compared. A process that wants the lock reads the row repeatedly, and takes over only after it has seen
//! the same number for the whole lease. A holder that cannot raise the number stops. If a holder is suspended in the
//! middle of a statement, that statement may finish after another process has taken over. This is harmless: every
//! statement can be repeated, and all go through one node.
//!
//! The row is agreed on by all copies (`SERIAL`), before anything has shown that they are in one datacentre.

use std::time::Duration;

use rand::Rng;
use scylla::DeserializeRow;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::{Consistency, SerialConsistency, Statement};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use super::schema::COMPONENT;
use crate::ports::page_store::Cause;
use crate::ports::random::Random;
use crate::rows::applied;

/// How often [`repeated`] sends a statement again, and the pause before each.
const STATEMENT_REPEATS: usize = 3;
pub(super) const STATEMENT_PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub struct LeaseTimes {
    /// The interval at which the holder raises the number.
    pub heartbeat: Duration,
    /// How long the number must stay the same before another process may take over.
    pub lease: Duration,
    /// Longest wait for another process, in total.
    pub max_wait: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self { heartbeat: Duration::from_secs(3), lease: Duration::from_secs(20), max_wait: Duration::from_mins(5) }
    }
}

/// Why this process does not hold the lock.
#[derive(Debug, Error)]
pub enum LeaseError {
    /// Another process held the lock for the whole wait.
    #[error("another process is migrating; run this again when it has finished")]
    Held,
    #[error("another process took over, because this one did not renew its lock in time; run this again")]
    Lost,
    #[error("the lock of migrate cannot be read or written: {0}")]
    Database(#[from] Cause),
}

/// Does `work` while this process alone holds the lock of `keyspace`.
pub(super) async fn while_held<T>(
    session: &Session,
    keyspace: &str,
    times: LeaseTimes,
    mut random: &Random,
    work: impl Future<Output = T>,
) -> Result<T, LeaseError> {
    let mut holder = [0; 16];
    random.fill_bytes(&mut holder);
    let lock = Lock { session, keyspace, holder };
    lock.take(times).await?;
    let done = tokio::select! {
        done = work => done,
        lost = lock.renew(times) => return Err(lost),
    };
    // If this fails, the next process waits for the whole lease.
    let _ = lock.release().await;
    Ok(done)
}

/// The answer to a statement that may be sent several times. An attempt that fails is repeated a few times.
pub(super) async fn repeated(
    session: &Session,
    statement: Statement,
    values: impl SerializeRow,
) -> Result<QueryResult, ExecutionError> {
    for _ in 0..STATEMENT_REPEATS {
        if let Ok(answer) = session.query_unpaged(statement.clone(), &values).await {
            return Ok(answer);
        }
        sleep(STATEMENT_PAUSE).await;
    }
    session.query_unpaged(statement, &values).await
}

/// The row of the lock. All fields are null if there is no row.
#[derive(Debug, Default, PartialEq, Eq, DeserializeRow)]
struct LockRow {
    holder: Option<Vec<u8>>,
    heartbeat: Option<i64>,
}

struct Lock<'a> {
    session: &'a Session,
    keyspace: &'a str,
    holder: [u8; 16],
}

impl Lock<'_> {
    async fn take(&self, times: LeaseTimes) -> Result<(), LeaseError> {
        let started = Instant::now();
        let (mut seen, mut since) = (self.read().await?, Instant::now());
        loop {
            let is_free = seen.holder.is_none() || since.elapsed() >= times.lease;
            if is_free && self.replace(&seen).await? {
                return Ok(());
            }
            if started.elapsed() >= times.max_wait {
                return Err(LeaseError::Held);
            }
            sleep(times.heartbeat.min(Duration::from_secs(1))).await;
            let row = self.read().await?;
            if row != seen {
                (seen, since) = (row, Instant::now());
            }
        }
    }

    /// Raises the number until that is no longer possible, and returns the reason why it is not.
    async fn renew(&self, times: LeaseTimes) -> LeaseError {
        let mut renewed = Instant::now();
        for heartbeat in 1_i64.. {
            sleep(times.heartbeat).await;
            let began = Instant::now();
            let raise = self.update("heartbeat = ?", "holder = ?", (heartbeat, self.holder.as_slice()));
            // Another process may take over when the lease ends. So an answer that takes longer is not waited for.
            match timeout(times.lease.saturating_sub(renewed.elapsed()), raise).await {
                Ok(Ok(true)) => renewed = began,
                Ok(Ok(false)) | Err(_) => break,
                Ok(Err(error)) if renewed.elapsed() + times.heartbeat >= times.lease => return error.into(),
                Ok(Err(_)) => {}
            }
        }
        LeaseError::Lost
    }

    async fn release(&self) -> Result<bool, Cause> {
        self.update("holder = null", "holder = ?", (self.holder.as_slice(),)).await
    }

    /// Makes this process the holder if the row of the lock is still equal to `row`.
    async fn replace(&self, row: &LockRow) -> Result<bool, Cause> {
        let values = (self.holder.as_slice(), &row.holder, row.heartbeat);
        match self.update("holder = ?, heartbeat = 0", "holder = ? AND heartbeat = ?", values).await {
            Ok(replaced) => Ok(replaced),
            // The write may have been done although it failed.
            Err(_) => Ok(self.read().await?.holder.as_deref() == Some(&self.holder)),
        }
    }

    async fn read(&self) -> Result<LockRow, Cause> {
        let keyspace = self.keyspace;
        let cql = format!("SELECT holder, heartbeat FROM {keyspace}.schema_lock WHERE component = '{COMPONENT}'");
        let mut statement = Statement::new(cql);
        statement.set_consistency(Consistency::Serial);
        let rows = repeated(self.session, statement, ()).await?.into_rows_result()?;
        Ok(rows.maybe_first_row()?.unwrap_or_default())
    }

    /// A conditional write. A condition `= null` also holds if there is no row; the write then creates the row.
    async fn update(&self, set: &str, condition: &str, values: impl SerializeRow) -> Result<bool, Cause> {
        let keyspace = self.keyspace;
        let cql = format!("UPDATE {keyspace}.schema_lock SET {set} WHERE component = '{COMPONENT}' IF {condition}");
        let mut statement = Statement::new(cql);
        statement.set_serial_consistency(Some(SerialConsistency::Serial));
        applied(self.session.query_unpaged(statement, values).await?)
    }
}
