//! The lock of `migrate`: a row that its holder keeps counting up.
//!
//! No clocks are compared. Whoever wants the lock watches the row and takes it over only when it has itself seen the
//! count stand still for the whole lease. A holder that cannot count up stops. One that was suspended in the middle of a
//! statement may still finish that statement after another has taken over, which is harmless, because every statement
//! is safe to run twice and all go through one node.

use std::time::Duration;

use rand::Rng;
use scylla::DeserializeRow;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::statement::{Consistency, Statement};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::schema::COMPONENT;
use crate::backends::cql::rows::applied;
use crate::ports::page_store::Cause;
use crate::ports::random::Random;

/// How often a statement of the bookkeeping that was not answered is sent again, and after how long.
pub(super) const STATEMENT_REPEATS: usize = 3;
pub(super) const STATEMENT_PAUSE: Duration = Duration::from_millis(500);

/// The times of a lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTimes {
    /// How often the holder counts up.
    pub beat: Duration,
    /// How long the count must stand still before another may take over.
    pub lease: Duration,
    /// How long to wait for another process in all.
    pub patience: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self { beat: Duration::from_secs(3), lease: Duration::from_secs(20), patience: Duration::from_mins(5) }
    }
}

/// Why the lock is not held.
#[derive(Debug, Error)]
pub enum LeaseError {
    /// Another process has held it all the time.
    #[error("another process is migrating; run this again when it has finished")]
    Held,
    /// Another process took over while this one worked.
    #[error("another process took over, because this one was not heard of for too long; run this again")]
    Lost,
    /// The database did not answer.
    #[error("the lock of migrate cannot be had: {0}")]
    Database(Cause),
}

impl From<ExecutionError> for LeaseError {
    fn from(error: ExecutionError) -> Self {
        Self::Database(Box::new(error))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, DeserializeRow)]
struct LockRow {
    holder: Option<Vec<u8>>,
    beat: Option<i64>,
}

/// Does `work` while this process alone holds the lock.
pub(super) async fn while_held<T>(
    session: &Session,
    times: LeaseTimes,
    mut random: &Random,
    work: impl Future<Output = T>,
) -> Result<T, LeaseError> {
    let mut holder = [0; 16];
    random.fill_bytes(&mut holder);
    let lock = Lock { session, holder };
    lock.take(times).await?;
    let done = tokio::select! {
        done = work => done,
        lost = lock.beat(times) => return Err(lost),
    };
    // Should this fail, the next process waits for the lease.
    let _ = lock.release().await;
    Ok(done)
}

struct Lock<'a> {
    session: &'a Session,
    holder: [u8; 16],
}

impl Lock<'_> {
    async fn take(&self, times: LeaseTimes) -> Result<(), LeaseError> {
        let started = Instant::now();
        let mut seen: Option<(LockRow, Instant)> = None;
        loop {
            let row = self.read().await?;
            let is_free = row.as_ref().is_none_or(|row| row.holder.is_none());
            let stands_still = match (&seen, &row) {
                (Some((before, since)), Some(row)) if before == row => since.elapsed() >= times.lease,
                _ => {
                    seen = row.clone().map(|row| (row, Instant::now()));
                    false
                }
            };
            if (is_free || stands_still) && self.replace(row.as_ref()).await? {
                return Ok(());
            }
            if started.elapsed() >= times.patience {
                return Err(LeaseError::Held);
            }
            sleep(times.beat.min(Duration::from_secs(1))).await;
        }
    }

    /// Counts up for ever, or returns why that is no longer possible.
    async fn beat(&self, times: LeaseTimes) -> LeaseError {
        let mut answered = Instant::now();
        loop {
            sleep(times.beat).await;
            match self.count_up().await {
                Ok(true) => answered = Instant::now(),
                Ok(false) => return LeaseError::Lost,
                Err(error) if answered.elapsed() + times.beat >= times.lease => return error,
                Err(_) => {}
            }
        }
    }

    async fn read(&self) -> Result<Option<LockRow>, LeaseError> {
        let mut failed = None;
        for _ in 0..=STATEMENT_REPEATS {
            let mut statement =
                Statement::new(format!("SELECT holder, beat FROM schema_lock WHERE component = '{COMPONENT}'"));
            statement.set_consistency(Consistency::LocalSerial);
            match self.session.query_unpaged(statement, ()).await {
                Ok(answer) => {
                    let rows = answer.into_rows_result().map_err(|error| LeaseError::Database(error.into()))?;
                    return rows.maybe_first_row().map_err(|error| LeaseError::Database(error.into()));
                }
                Err(error) => failed = Some(error),
            }
            sleep(STATEMENT_PAUSE).await;
        }
        Err(failed.expect("every try has failed").into())
    }

    /// Puts this holder in the place of `row`, if the lock still stands as it did then.
    async fn replace(&self, row: Option<&LockRow>) -> Result<bool, LeaseError> {
        let written = match row {
            None => {
                let cql = format!(
                    "INSERT INTO schema_lock (component, holder, beat) VALUES ('{COMPONENT}', ?, 0) IF NOT EXISTS"
                );
                self.write(&cql, (self.holder.as_slice(),)).await
            }
            Some(LockRow { holder, beat }) => {
                let cql = format!(
                    "UPDATE schema_lock SET holder = ?, beat = 0 WHERE component = '{COMPONENT}' \
                     IF holder = ? AND beat = ?"
                );
                self.write(&cql, (self.holder.as_slice(), holder, beat)).await
            }
        };
        match written {
            Ok(written) => Ok(written),
            // It may have been written all the same.
            Err(_) => Ok(self.read().await?.is_some_and(|row| row.holder.as_deref() == Some(&self.holder))),
        }
    }

    async fn count_up(&self) -> Result<bool, LeaseError> {
        let Some(LockRow { holder, beat }) = self.read().await? else { return Ok(false) };
        if holder.as_deref() != Some(&self.holder) {
            return Ok(false);
        }
        let cql = format!("UPDATE schema_lock SET beat = ? WHERE component = '{COMPONENT}' IF holder = ?");
        self.write(&cql, (beat.unwrap_or(0) + 1, self.holder.as_slice())).await
    }

    async fn release(&self) -> Result<bool, LeaseError> {
        let cql = format!("UPDATE schema_lock SET holder = null WHERE component = '{COMPONENT}' IF holder = ?");
        self.write(&cql, (self.holder.as_slice(),)).await
    }

    async fn write(&self, cql: &str, values: impl scylla::serialize::row::SerializeRow) -> Result<bool, LeaseError> {
        let answer = self.session.query_unpaged(Statement::new(cql), values).await?;
        applied(answer).map_err(LeaseError::Database)
    }
}
