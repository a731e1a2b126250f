//! Runs the reads that several callers share, one kind of read for each [`SingleFlight`].
//!
//! A task for each key gathers the callers of its next read and runs its reads: a caller that disconnects takes nothing
//! from the others, and a read that panics leaves its key usable.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::OptionFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use thiserror::Error;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::circuit_breaker::{CircuitBreaker, Next};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans::with_current_span;
use handbill_core::ports::page_store::StoreError;

type Answer<T> = Result<T, StoreError>;

/// The callers that wait for a read that has not begun.
type Waiters<T> = Vec<oneshot::Sender<Answer<T>>>;

pub(super) struct SingleFlight<K, T> {
    metrics: Arc<Metrics>,
    /// The waiters for the next read of each key. A key is in the map while its task runs.
    waiting: Mutex<HashMap<K, Gathering<T>>>,
}

struct Gathering<T> {
    waiters: Waiters<T>,
    /// Wakes the task when the first waiter has come.
    arrived: Arc<Notify>,
}

/// The reads of a slug hang, so no further read is begun.
#[derive(Debug, Error)]
#[error("earlier reads of the same page are not answered")]
struct BreakerOpen;

/// A read ended without an answer: it panicked, or the runtime is shutting down.
#[derive(Debug, Error)]
#[error("the read ended without an answer")]
struct ReadBroken;

impl<K: Clone + Eq + Hash + Send + 'static, T: Clone + Send + 'static> SingleFlight<K, T> {
    pub(super) fn new(metrics: &Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { metrics: Arc::clone(metrics), waiting: Mutex::default() })
    }

    /// The answer to a read of `key` that begins after this call. `read` makes one. A read must not block its thread: all
    /// reads of a key, and the refusals of its callers, run in one task.
    pub(super) async fn read<F>(self: &Arc<Self>, key: K, read: impl Fn() -> F + Send + 'static) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        let (waiter, answer) = oneshot::channel();
        if let Some(arrived) = self.join(&key, waiter) {
            tokio::spawn(with_current_span(Arc::clone(self).read_while_wanted(key, arrived, read)));
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable(Box::new(ReadBroken))))
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<K, Gathering<T>>> {
        // Nothing panics while the lock is held, so the map is consistent even if it is poisoned.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter to the next read of `key`. If no task reads the key yet, returns what wakes the task that the caller
    /// must start.
    fn join(&self, key: &K, waiter: oneshot::Sender<Answer<T>>) -> Option<Arc<Notify>> {
        let mut waiting = self.waiting();
        if let Some(gathering) = waiting.get_mut(key) {
            // The task has seen those who wait already, and does not begin its next read earlier for one more.
            if gathering.waiters.is_empty() {
                gathering.arrived.notify_one();
            } else {
                self.metrics.lookup_joins.inc();
            }
            gathering.waiters.push(waiter);
            return None;
        }
        let arrived = Arc::new(Notify::new());
        waiting.insert(key.clone(), Gathering { waiters: vec![waiter], arrived: Arc::clone(&arrived) });
        Some(arrived)
    }

    /// Reads `key` for its waiters, again and again until nobody waits and no read is in flight.
    async fn read_while_wanted<F>(self: Arc<Self>, key: K, arrived: Arc<Notify>, read: impl Fn() -> F + Send)
    where
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        let mut breaker = CircuitBreaker::default();
        let mut running = FuturesUnordered::new();
        loop {
            let wake_at = match breaker.next(Instant::now(), self.gathered(&key)) {
                Next::Begin => {
                    let (waiters, answer, began) = (self.take(&key), read(), Instant::now());
                    breaker.began(began);
                    let answering = AssertUnwindSafe(async move { fan_out(waiters, answer.await) });
                    running.push(async move {
                        // A panic drops the waiters, who are then told that the read ended.
                        (began, answering.catch_unwind().await.unwrap_or(false))
                    });
                    continue;
                }
                Next::Refuse => {
                    fan_out(self.take(&key), Err(StoreError::Unavailable(Box::new(BreakerOpen))));
                    continue;
                }
                Next::WaitUntil(at) => Some(at),
                Next::Wait if running.is_empty() => {
                    if self.leave(&key) {
                        return;
                    }
                    continue;
                }
                Next::Wait => None,
            };
            tokio::select! {
                Some((began, answered)) = running.next() => breaker.ended(began, Instant::now(), answered),
                () = arrived.notified() => {}
                Some(()) = OptionFuture::from(wake_at.map(sleep_until)) => {}
            }
        }
    }

    /// How many wait for the next read of `key`. Those that have disconnected are removed.
    fn gathered(&self, key: &K) -> usize {
        self.waiting().get_mut(key).map_or(0, |gathering| {
            gathering.waiters.retain(|waiter| !waiter.is_closed());
            gathering.waiters.len()
        })
    }

    /// Takes the waiters for `key`, for a read that begins now. Later waiters wait for the next read.
    fn take(&self, key: &K) -> Waiters<T> {
        self.waiting().get_mut(key).map(|gathering| std::mem::take(&mut gathering.waiters)).unwrap_or_default()
    }

    /// Removes `key` unless somebody waits. Returns whether it was removed.
    fn leave(&self, key: &K) -> bool {
        let mut waiting = self.waiting();
        if waiting.get(key).is_some_and(|gathering| !gathering.waiters.is_empty()) {
            return false;
        }
        waiting.remove(key);
        true
    }

    /// Whether no key is read.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.waiting().is_empty()
    }
}

/// Sends one answer to all waiters, some of which may have disconnected. Returns whether the store has answered.
fn fan_out<T: Clone>(waiters: Waiters<T>, answer: Answer<T>) -> bool {
    match answer {
        Ok(found) => {
            for waiter in waiters {
                drop(waiter.send(Ok(found.clone())));
            }
            true
        }
        Err(error) => {
            // The store did answer if its record cannot be read.
            let answered = matches!(error, StoreError::Unreadable(_));
            let (kind, cause): (fn(_) -> _, _) = match error {
                StoreError::Unavailable(cause) => (StoreError::Unavailable, cause),
                StoreError::Fenced(cause) => (StoreError::Fenced, cause),
                StoreError::OutcomeUnknown(cause) => (StoreError::OutcomeUnknown, cause),
                StoreError::Unreadable(cause) => (StoreError::Unreadable, cause),
            };
            let cause: Arc<dyn std::error::Error + Send + Sync> = Arc::from(cause);
            for waiter in waiters {
                drop(waiter.send(Err(kind(Box::new(Arc::clone(&cause))))));
            }
            answered
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_that_waits_for_a_read_wakes_the_task_that_begins_it() {
        let flight = SingleFlight::<u8, u8>::new(&Arc::new(Metrics::new()));
        let join = || flight.join(&1, oneshot::channel().0);
        let arrived = join().expect("nobody reads the key yet");
        let is_woken = || arrived.notified().now_or_never().is_some();
        assert!(join().is_none() && !is_woken(), "the task begins with both");
        assert_eq!(flight.take(&1).len(), 2);
        assert!(join().is_none() && is_woken());
        assert!(join().is_none() && !is_woken());
        assert_eq!(flight.metrics.lookup_joins.get(), 2);
    }
}
