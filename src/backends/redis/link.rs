//! The one connection to Redis, calls with a time limit over it, and doing without while Redis is out of reach.
//!
//! # Why one connection and no pool
//!
//! Calls share a connection and are sent without waiting for the answers before them; Redis runs them one after the
//! other however they arrive. A pool would add a round trip to each call, to see that the connection it lends is alive.
//!
//! # What a caller waits for
//!
//! At most [`TimeLimits::call`]: a call that got no answer within [`TimeLimits::first_try`], or lost its connection, is
//! tried once more on a new connection. A refused connection is not tried again. While the breaker is open
//! nobody waits.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::{RedisError, RedisResult};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use super::circuit_breaker::Breaker;
use super::topology::{Connection, SharedTopology};
use crate::ports::clock::SharedClock;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans::mark_unavailable;

/// How long calls wait for Redis.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// For the first of two tries. On a healthy network an answer takes less than one millisecond.
    pub first_try: Duration,
    /// For the second.
    pub second_try: Duration,
    /// For connecting, names, TLS, sentinels and a cluster's slots included. No caller waits for all of it.
    pub connect: Duration,
    /// Between two looks whether Redis is back. No caller waits for one.
    pub probe_interval: Duration,
}

impl TimeLimits {
    /// Longest that a caller waits, all in.
    pub fn call(&self) -> Duration {
        self.first_try + self.second_try
    }
}

impl Default for TimeLimits {
    /// Half a second for a call, all in: far more than a healthy Redis takes, for each call that is given up may let a
    /// client have one attempt too many; and little enough for the three calls of a create while it is found out that
    /// Redis hangs.
    fn default() -> Self {
        let (first_try, second_try) = (Duration::from_millis(250), Duration::from_millis(250));
        Self { first_try, second_try, connect: Duration::from_secs(3), probe_interval: Duration::from_secs(1) }
    }
}

/// How long Redis keeps what a probe wrote.
const PROBE_KEY_SECONDS: u32 = 3;

/// Why a call has no answer.
#[derive(Clone, Debug, Error)]
enum CallError {
    /// There is nobody to talk to. Nothing was done.
    #[error("cannot connect: {0}")]
    Unreachable(RedisError),
    /// What was asked may or may not have been done.
    #[error("no answer in time")]
    Silent,
    /// Redis, or the connection to it, failed. What was asked may or may not have been done.
    #[error("{0}")]
    Failed(RedisError),
}

/// How often a call is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tries {
    /// Once.
    One,
    /// Twice: the call does nothing more when it is made again.
    Two,
}

type Connecting = Shared<BoxFuture<'static, Result<Connection, CallError>>>;

/// The connection that is in use or being made, with a number that no other has.
#[derive(Default)]
struct Held {
    number: u64,
    connecting: Option<Connecting>,
}

/// Connects, within the limit. Nobody need wait for the end.
async fn connect(topology: SharedTopology, limits: TimeLimits) -> Result<Connection, CallError> {
    match timeout(limits.connect, topology.connect(limits)).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) if error.is_timeout() => Err(CallError::Silent),
        Ok(Err(error)) => Err(CallError::Unreachable(error)),
        Err(_) => Err(CallError::Silent),
    }
}

/// The way to Redis, shared by all who call it.
pub(super) struct Link {
    topology: SharedTopology,
    limits: TimeLimits,
    clock: SharedClock,
    metrics: Arc<Metrics>,
    held: Mutex<Held>,
    renewing: AtomicBool,
    breaker: Mutex<Breaker>,
    out_of_reach: watch::Sender<bool>,
    probe_key: String,
}

impl Link {
    /// A link that begins to connect at once.
    pub(super) fn open(
        topology: SharedTopology,
        limits: TimeLimits,
        clock: SharedClock,
        metrics: Arc<Metrics>,
        probe_key: String,
    ) -> Arc<Self> {
        let link = Arc::new(Self {
            topology,
            limits,
            clock,
            metrics,
            held: Mutex::default(),
            renewing: AtomicBool::new(false),
            breaker: Mutex::new(Breaker::new()),
            out_of_reach: watch::Sender::new(false),
            probe_key,
        });
        drop(link.connection());
        link
    }

    /// Whether calls are spared because Redis is out of reach, and when that changes.
    pub(super) fn out_of_reach(&self) -> watch::Receiver<bool> {
        self.out_of_reach.subscribe()
    }

    /// The answer of Redis, or `None` within [`TimeLimits::call`]; what was asked may then have been done or not.
    pub(super) async fn call<T, F>(self: &Arc<Self>, tries: Tries, ask: impl Fn(Connection) -> F + Sync) -> Option<T>
    where
        F: Future<Output = RedisResult<T>> + Send,
    {
        let began = self.clock.monotonic();
        if !self.breaker().is_closed() {
            mark_unavailable();
            return None;
        }
        let answer = match tries {
            Tries::One => self.try_within(self.limits.call(), &ask).await,
            Tries::Two => match self.try_within(self.limits.first_try, &ask).await {
                Err(CallError::Silent | CallError::Failed(_)) => self.try_within(self.limits.second_try, &ask).await,
                outcome => outcome,
            },
        };
        match answer {
            Ok(answer) => {
                self.breaker().succeeded();
                Some(answer)
            }
            Err(error) => {
                let now = self.clock.monotonic();
                let opened = match error {
                    CallError::Unreachable(_) => self.breaker().refused(),
                    CallError::Silent | CallError::Failed(_) => self.breaker().failed(began, now),
                };
                tracing::debug!(%error, "a call to Redis failed");
                if opened {
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
        let (number, connecting) = self.connection();
        let asked = async { ask(connecting.clone().await?).await.map_err(CallError::Failed) };
        let answer = timeout(limit, asked).await.unwrap_or(Err(CallError::Silent));
        if matches!(answer, Err(CallError::Silent | CallError::Failed(_))) {
            match connecting.peek() {
                // The server behind it may be gone without a word, or be no master any more.
                Some(Ok(Connection::Direct(_))) => self.give_up(number),
                // Most of its servers may be well, and it may yet find who has taken over from the one that is not.
                Some(Ok(Connection::Cluster(_))) => self.renew(number),
                // It is being made, and is not to be begun again by each who cannot wait for it.
                Some(Err(_)) | None => {}
            }
        }
        answer
    }

    /// The connection, or the one that is being made, which goes on when nobody waits for it.
    fn connection(self: &Arc<Self>) -> (u64, Connecting) {
        let mut held = self.held();
        if let Some(connecting) = &held.connecting {
            return (held.number, connecting.clone());
        }
        let connecting = connect(Arc::clone(&self.topology), self.limits).boxed().shared();
        held.number += 1;
        held.connecting = Some(connecting.clone());
        let number = held.number;
        drop(held);
        let (link, driven) = (Arc::downgrade(self), connecting.clone());
        tokio::spawn(async move {
            if let Err(error) = driven.await
                && let Some(link) = link.upgrade()
            {
                link.give_up(number);
                // Noticed even where nobody calls, so that the metric is right on an idle replica.
                if matches!(error, CallError::Unreachable(_)) && link.breaker().refused() {
                    link.lost(&error);
                }
            }
        });
        (number, connecting)
    }

    /// Sees to it that the next call makes a new connection, unless somebody already has.
    fn give_up(&self, number: u64) {
        let mut held = self.held();
        if held.number == number {
            held.connecting = None;
        }
    }

    /// Makes a new connection while this one serves on, and then puts it in the place of this one.
    ///
    /// A cluster's connection sends on to servers that are gone for as long as it is not told of others, and calls that
    /// are given up do not tell it.
    fn renew(self: &Arc<Self>, number: u64) {
        if self.renewing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (link, topology, limits) = (Arc::downgrade(self), Arc::clone(&self.topology), self.limits);
        tokio::spawn(async move {
            let renewed = connect(topology, limits).boxed().shared();
            if renewed.clone().await.is_ok()
                && let Some(link) = link.upgrade()
            {
                link.replace(number, renewed);
            }
            // It takes a connection to every server, so that it is not done for each call that fails meanwhile.
            tokio::time::sleep(limits.probe_interval).await;
            if let Some(link) = link.upgrade() {
                link.renewing.store(false, Ordering::Release);
            }
        });
    }

    /// Puts a connection in the place of the one with `number`, unless that is in use no more.
    fn replace(&self, number: u64, connecting: Connecting) {
        let mut held = self.held();
        if held.number == number && held.connecting.is_some() {
            held.number += 1;
            held.connecting = Some(connecting);
        }
    }

    /// Sees to it that a probe makes a new connection, whatever is wrong with this one. One that is still being made
    /// is as new.
    fn start_anew(&self) {
        let mut held = self.held();
        if held.connecting.as_ref().is_some_and(|connecting| connecting.peek().is_some()) {
            held.connecting = None;
        }
    }

    /// Looks again and again whether Redis is back, until it is.
    fn look_for_it(self: &Arc<Self>) {
        let (link, interval) = (Arc::downgrade(self), self.limits.probe_interval);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(link) = link.upgrade() else { return };
                if link.probe().await {
                    return link.found();
                }
                link.start_anew();
            }
        });
    }

    /// Whether Redis takes writes again; a replica that is not yet a master answers, but does not.
    async fn probe(self: &Arc<Self>) -> bool {
        let link = Arc::clone(self);
        // In a task of its own, so that a panic in there is a probe that failed.
        let probing = tokio::spawn(async move {
            let (_, connecting) = link.connection();
            let mut connection = connecting.await?;
            let mut write = redis::cmd("SET");
            write.arg(&link.probe_key).arg(1).arg("EX").arg(PROBE_KEY_SECONDS);
            write.query_async::<()>(&mut connection).await.map_err(CallError::Failed)
        });
        matches!(timeout(self.limits.connect, probing).await, Ok(Ok(Ok(()))))
    }

    fn lost(self: &Arc<Self>, error: &CallError) {
        tracing::warn!(%error, "Redis is out of reach: this replica limits by what it has counted itself");
        self.metrics.limiter_fallback.set(1);
        self.out_of_reach.send_replace(true);
        self.start_anew();
        self.look_for_it();
    }

    fn found(&self) {
        self.breaker().close();
        tracing::info!("Redis is back: limits are shared again");
        self.metrics.limiter_fallback.set(0);
        self.out_of_reach.send_replace(false);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
