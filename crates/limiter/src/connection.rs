//! Calls Redis with a time limit, and makes no calls while Redis is unreachable.
//!
//! # How long a caller waits
//!
//! A caller waits at most [`TimeLimits::call`]. A call that got no answer within [`TimeLimits::first_try`], or lost its
//! connection, is tried once more on another connection. A refused connection is not tried again. While the breaker is
//! open no call waits.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deadpool::managed::{Manager as _, PoolError};
use parking_lot::Mutex;
use redis::{RedisError, RedisResult};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use super::circuit_breaker::CircuitBreaker;
use super::eviction;
use super::mark::mark_unavailable;
use super::metrics::LimiterMetrics;
use super::pool::{ConnectError, Connection, Pool};
use super::settings::TimeLimits;
use crate::ports::clock::SharedClock;

/// How long Redis keeps the key that a probe wrote.
const PROBE_KEY_SECONDS: u32 = 3;

#[derive(Debug, Error)]
enum CallError {
    /// No connection could be made. Redis did nothing.
    #[error("cannot connect: {0}")]
    Unreachable(ConnectError),
    /// Redis may or may not have run the command.
    #[error("no answer in time")]
    NoAnswer,
    /// The connection failed. Redis may or may not have run the command.
    #[error("{0}")]
    Failed(RedisError),
    /// The server takes no writes: it is a replica, or not ready yet. Another server may be the master now.
    #[error("{0}")]
    NotMaster(RedisError),
    /// The server refused the command, for example because its memory is full. It did nothing, and the connection
    /// works.
    #[error("{0}")]
    Refused(RedisError),
}

/// The codes of servers that take no writes now.
const NOT_MASTER: [&str; 4] = ["READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN"];

impl From<RedisError> for CallError {
    fn from(error: RedisError) -> Self {
        match error.code() {
            Some(code) if NOT_MASTER.contains(&code) => Self::NotMaster(error),
            Some(_) => Self::Refused(error),
            None => Self::Failed(error),
        }
    }
}

impl From<PoolError<ConnectError>> for CallError {
    fn from(error: PoolError<ConnectError>) -> Self {
        match error {
            PoolError::Backend(ConnectError::Redis(error)) if error.is_timeout() => Self::NoAnswer,
            PoolError::Backend(error) => Self::Unreachable(error),
            // One of the pool's own time limits has passed. No other error is possible, because the pool has no hooks
            // and is never closed.
            _ => Self::NoAnswer,
        }
    }
}

/// The connection to Redis that all callers share: a pool, and a breaker that stops calls while Redis is unreachable.
pub(super) struct RedisConnection {
    pool: Pool,
    limits: TimeLimits,
    clock: SharedClock,
    metrics: LimiterMetrics,
    refreshing: AtomicBool,
    breaker: Mutex<CircuitBreaker>,
    looked_for_master_at: Mutex<Option<Duration>>,
    out_of_reach: watch::Sender<bool>,
    probe_key: String,
}

impl RedisConnection {
    /// Returns immediately; the first connection is made in the background.
    pub(super) fn open(
        pool: Pool,
        limits: TimeLimits,
        clock: SharedClock,
        metrics: LimiterMetrics,
        probe_key: String,
    ) -> Arc<Self> {
        let redis = Arc::new(Self {
            pool,
            limits,
            clock,
            metrics,
            refreshing: AtomicBool::new(false),
            breaker: Mutex::new(CircuitBreaker::new()),
            looked_for_master_at: Mutex::new(None),
            out_of_reach: watch::Sender::new(false),
            probe_key,
        });
        let first = tokio::spawn(Arc::clone(&redis).connect());
        drop(tokio::spawn(async move {
            if let Ok(Ok(connection)) = first.await {
                eviction::warn(connection).await;
            }
        }));
        redis
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.pool.manager().is_cluster()
    }

    /// Shows whether calls are skipped because Redis is unreachable, and notifies of each change.
    pub(super) fn out_of_reach(&self) -> watch::Receiver<bool> {
        self.out_of_reach.subscribe()
    }

    /// Returns the answer of Redis, within [`TimeLimits::call`]. Returns `None` if there was no answer: Redis may or
    /// may not have run the command. Running the command of `ask` twice must change no more than running it once.
    pub(super) async fn call<T, F>(self: &Arc<Self>, ask: impl Fn(Connection) -> F + Sync) -> Option<T>
    where
        F: Future<Output = RedisResult<T>> + Send,
    {
        let began = self.clock.monotonic();
        if !self.breaker.lock().is_closed() {
            mark_unavailable();
            return None;
        }
        let answer = match self.try_within(self.limits.first_try, &ask).await {
            Err(CallError::NoAnswer | CallError::Failed(_) | CallError::NotMaster(_)) => {
                self.try_within(self.limits.second_try, &ask).await
            }
            outcome => outcome,
        };
        match answer {
            Ok(answer) => {
                self.breaker.lock().succeeded();
                Some(answer)
            }
            Err(error) => {
                tracing::debug!(%error, "a call to Redis failed");
                let is_refused = matches!(error, CallError::Unreachable(_));
                let now = self.clock.monotonic();
                if !is_refused && self.breaker.lock().failed(began, now) {
                    self.lost(&error);
                }
                mark_unavailable();
                None
            }
        }
    }

    async fn try_within<T, F>(
        self: &Arc<Self>,
        limit: Duration,
        ask: &(impl Fn(Connection) -> F + Sync),
    ) -> Result<T, CallError>
    where
        F: Future<Output = RedisResult<T>> + Send,
    {
        let began = Instant::now();
        let asked = async { ask(self.lend().await?).await.map_err(CallError::from) };
        let answer = timeout(limit, asked).await.unwrap_or(Err(CallError::NoAnswer));
        match answer {
            Err(CallError::NoAnswer | CallError::Failed(_)) => self.replace_older_than(began),
            Err(CallError::NotMaster(_)) if self.may_look_for_the_master() => self.replace_older_than(began),
            _ => {}
        }
        answer
    }

    async fn lend(self: &Arc<Self>) -> Result<Connection, CallError> {
        if self.pool.status().available > 0 {
            return Ok(self.pool.get().await?.clone());
        }
        // A separate task makes the connection, so that other calls get it even if this caller stops waiting.
        tokio::spawn(Arc::clone(self).connect()).await.unwrap_or(Err(CallError::NoAnswer))
    }

    /// Returns a connection and makes it first if necessary. If it cannot be made, this opens the breaker even if no
    /// caller waits any more, so that the metric is right on an idle replica.
    async fn connect(self: Arc<Self>) -> Result<Connection, CallError> {
        let lent = self.pool.get().await.map_err(CallError::from);
        if let Err(error @ CallError::Unreachable(_)) = &lent
            && self.breaker.lock().refused()
        {
            self.lost(error);
        }
        Ok(lent?.clone())
    }

    /// Whether the last search for a new master was long enough ago. A server that takes no writes answers at once, so
    /// each call would otherwise make a connection.
    fn may_look_for_the_master(&self) -> bool {
        let now = self.clock.monotonic();
        let mut looked_at = self.looked_for_master_at.lock();
        let may = looked_at.is_none_or(|at| at + self.limits.probe_interval <= now);
        if may {
            *looked_at = Some(now);
        }
        may
    }

    /// Replaces the connections that are older than a failed call, which began at `began`. Its server may have
    /// disappeared without closing the connection, or may no longer be the master. Connections that are being made are
    /// kept.
    fn replace_older_than(self: &Arc<Self>, began: Instant) {
        if self.pool.manager().is_cluster() {
            self.refresh();
        } else {
            self.pool.retain(|_, connection| connection.created > began);
        }
    }

    /// Makes a new connection to the cluster in the background, and then drops the ones that are in use.
    ///
    /// Most servers of the cluster may still work, so calls use the old connections meanwhile. A new connection is
    /// needed, because on an old one the library keeps sending to servers that are gone until it learns of others, and
    /// it learns nothing from calls that are given up.
    fn refresh(self: &Arc<Self>) {
        if self.refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let redis = Arc::downgrade(self);
        let (pool, limits) = (self.pool.clone(), self.limits);
        tokio::spawn(async move {
            if let Ok(Ok(connection)) = timeout(limits.connect, pool.manager().create()).await
                && let Ok(mut lent) = pool.get().await
            {
                *lent = connection;
                pool.retain(|_, _| false);
            }
            drop(pool);
            // A new connection connects to every server of the cluster. So at most one is made in each interval, and
            // not one for each call that fails.
            tokio::time::sleep(limits.probe_interval).await;
            if let Some(redis) = redis.upgrade() {
                redis.refreshing.store(false, Ordering::Release);
            }
        });
    }

    /// Checks in the background, once in each interval, whether Redis is back. Stops when Redis is back.
    fn spawn_probe(self: &Arc<Self>) {
        let (redis, interval) = (Arc::downgrade(self), self.limits.probe_interval);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(redis) = redis.upgrade() else { return };
                if redis.probe().await {
                    return redis.found();
                }
            }
        });
    }

    /// Checks on a new connection whether Redis takes writes. A replica that is not yet a master answers, but takes no
    /// writes.
    async fn probe(self: &Arc<Self>) -> bool {
        let redis = Arc::clone(self);
        // The probe runs in its own task, so that a panic in the library counts as a failed probe.
        let probing = tokio::spawn(async move {
            redis.pool.retain(|_, _| false);
            let mut connection = redis.pool.get().await?.clone();
            let mut write = redis::cmd("SET");
            write.arg(&redis.probe_key).arg(1).arg("EX").arg(PROBE_KEY_SECONDS);
            write.query_async::<()>(&mut connection).await.map_err(CallError::from)
        });
        matches!(timeout(self.limits.connect, probing).await, Ok(Ok(Ok(()))))
    }

    fn lost(self: &Arc<Self>, error: &CallError) {
        tracing::warn!(%error, "Redis is unreachable: this replica limits by what it has counted itself");
        self.metrics.fallback.set(1);
        self.out_of_reach.send_replace(true);
        self.spawn_probe();
    }

    fn found(&self) {
        self.breaker.lock().close();
        tracing::info!("Redis is back: limits are shared again");
        self.metrics.fallback.set(0);
        self.out_of_reach.send_replace(false);
    }
}
