//! The lock of `migrate`: a row of `settings` with a TTL, which its holder renews.
//!
//! A suspended holder's statement may finish after another process has the lock. All statements can be repeated, and
//! all go through one node, so this is harmless.

use std::time::Duration;

use handbill_pages::ports::page_store::Cause;
use handbill_pages::ports::random::Random;
use handbill_pages::values::hex;
use scylla::client::session::Session;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;
use scylla::value::{CqlValue, Row};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::conditional::new_id;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct LockTimes {
    /// How long the lock outlives a process. Renewed three times as often.
    pub ttl: Duration,
    pub max_wait: Duration,
}

impl Default for LockTimes {
    fn default() -> Self {
        Self { ttl: Duration::from_mins(1), max_wait: Duration::from_mins(5) }
    }
}

#[derive(Debug, Error)]
pub enum LockError {
    #[error("another process is migrating; run this again when it has finished")]
    Held,
    #[error("the lock of migrate could not be renewed in time; run this again")]
    Lost,
    #[error("the lock of migrate cannot be read or written: {0}")]
    Database(#[from] Cause),
}

pub(super) async fn while_held<T>(
    session: &Session,
    keyspace: &str,
    times: LockTimes,
    random: &Random,
    work: impl Future<Output = T>,
) -> Result<T, LockError> {
    let lock = Lock { session, keyspace, holder: hex::encode(&new_id(random)), times };
    lock.take().await?;
    let done = tokio::select! {
        done = work => done,
        lost = lock.renew() => return Err(lost),
    };
    // Otherwise the next process waits until the lock ends.
    let _ = lock.update("SET value = null", "value = ?", (&lock.holder,)).await;
    Ok(done)
}

struct Lock<'a> {
    session: &'a Session,
    keyspace: &'a str,
    holder: String,
    times: LockTimes,
}

impl Lock<'_> {
    fn ttl(&self) -> String {
        format!("USING TTL {} SET value = ?", self.times.ttl.as_secs().max(1))
    }

    async fn take(&self) -> Result<(), LockError> {
        let started = Instant::now();
        loop {
            let taken = self.update(&self.ttl(), "value = null", (&self.holder,)).await;
            // A failed attempt may have been done.
            let error = match (taken, self.renewed().await) {
                (Ok(true), _) | (_, Ok(true)) => return Ok(()),
                (Err(error), _) | (_, Err(error)) => Some(error),
                (Ok(false), Ok(false)) => None,
            };
            if started.elapsed() >= self.times.max_wait {
                return Err(error.map_or(LockError::Held, LockError::Database));
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Returns when the lock cannot be renewed.
    async fn renew(&self) -> LockError {
        let mut renewed = Instant::now();
        loop {
            sleep(self.times.ttl / 3).await;
            let began = Instant::now();
            match self.renewed().await {
                Ok(true) => renewed = began,
                Ok(false) => return LockError::Lost,
                Err(error) if renewed.elapsed() + self.times.ttl / 3 >= self.times.ttl => return error.into(),
                Err(_) => {}
            }
        }
    }

    async fn renewed(&self) -> Result<bool, Cause> {
        self.update(&self.ttl(), "value = ?", (&self.holder, &self.holder)).await
    }

    async fn update(&self, set: &str, condition: &str, values: impl SerializeRow) -> Result<bool, Cause> {
        let cql = format!("UPDATE {}.settings {set} WHERE name = 'lock' IF {condition}", self.keyspace);
        let rows = self.session.query_unpaged(Statement::new(cql), values).await?.into_rows_result()?;
        let (index, _) = rows.column_specs().get_by_name("[applied]").ok_or("the answer has no column [applied]")?;
        let row: Row = rows.first_row()?;
        Ok(row.columns[index].as_ref().and_then(CqlValue::as_boolean) == Some(true))
    }
}
