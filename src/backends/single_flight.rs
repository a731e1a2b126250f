//! Runs the reads that several callers share, one kind of read for each [`SingleFlight`].
//!
//! A task for each key gathers the callers of its next read and runs its reads: a caller that disconnects takes nothing
//! from the others, and a read that panics leaves its key usable.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::future::OptionFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
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

    /// Adds a waiter to the next read of `key`. If no task reads the key yet, returns what wakes the task that the caller
    /// must start.
    fn join(&self, key: &K, waiter: oneshot::Sender<Answer<T>>) -> Option<Arc<Notify>> {
        let mut waiting = self.waiting.lock();
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
        self.waiting.lock().get_mut(key).map_or(0, |gathering| {
            gathering.waiters.retain(|waiter| !waiter.is_closed());
            gathering.waiters.len()
        })
    }

    /// Takes the waiters for `key`, for a read that begins now. Later waiters wait for the next read.
    fn take(&self, key: &K) -> Waiters<T> {
        self.waiting.lock().get_mut(key).map(|gathering| std::mem::take(&mut gathering.waiters)).unwrap_or_default()
    }

    /// Removes `key` unless somebody waits. Returns whether it was removed.
    fn leave(&self, key: &K) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.get(key).is_some_and(|gathering| !gathering.waiters.is_empty()) {
            return false;
        }
        waiting.remove(key);
        true
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
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use futures_util::future::{BoxFuture, join_all};
    use proptest::prelude::*;
    use tokio::sync::Semaphore;
    use tokio::task::{JoinHandle, yield_now};

    use super::super::circuit_breaker::{HUNG_AFTER, SILENT_AFTER};
    use super::*;

    /// A record whose number grows. A read notes the number when it starts and returns that number later: the oldest
    /// answer that the contract of stores allows.
    struct Growing {
        committed: AtomicU64,
        reads: AtomicU64,
        turns: usize,
        gate: Semaphore,
        fails: AtomicBool,
        panics: AtomicBool,
    }

    impl Growing {
        /// A record whose reads yield `turns` times and do not wait at the gate.
        fn new(turns: usize) -> Arc<Self> {
            let record = Self::behind_a_gate(turns);
            record.gate.add_permits(Semaphore::MAX_PERMITS);
            record
        }

        fn behind_a_gate(turns: usize) -> Arc<Self> {
            let (committed, reads) = (AtomicU64::new(0), AtomicU64::new(0));
            let (fails, panics) = (AtomicBool::new(false), AtomicBool::new(false));
            Arc::new(Self { committed, reads, turns, gate: Semaphore::new(0), fails, panics })
        }

        fn reads(&self) -> u64 {
            self.reads.load(Ordering::SeqCst)
        }

        async fn read(self: Arc<Self>) -> Answer<u64> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            let number = self.committed.load(Ordering::SeqCst);
            for _ in 0..self.turns {
                yield_now().await;
            }
            self.gate.acquire().await.unwrap().forget();
            assert!(!self.panics.load(Ordering::SeqCst), "as planned");
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::Unreadable("as planned".into()));
            }
            Ok(number)
        }
    }

    /// Readers of `record` who share reads.
    #[derive(Clone)]
    struct Sharing {
        record: Arc<Growing>,
        flight: Arc<SingleFlight<char, u64>>,
    }

    impl Sharing {
        fn of(record: &Arc<Growing>) -> Self {
            Self { record: Arc::clone(record), flight: SingleFlight::new(&Arc::new(Metrics::new())) }
        }

        async fn read(&self, key: char) -> Answer<u64> {
            let record = Arc::clone(&self.record);
            self.flight.read(key, move || Arc::clone(&record).read()).await
        }

        /// A read in a task of its own.
        fn reader(&self, key: char) -> JoinHandle<Answer<u64>> {
            let sharing = self.clone();
            tokio::spawn(async move { sharing.read(key).await })
        }

        /// Waits until no key is read.
        async fn idle(&self) {
            while !self.flight.waiting.lock().is_empty() {
                yield_now().await;
            }
        }
    }

    /// For each number in `starts`, yields that many times, commits, and starts a reader. Returns how many readers got
    /// an answer older than the last commit before their start.
    async fn stale_answers(
        record: Arc<Growing>,
        read: impl Fn() -> BoxFuture<'static, Answer<u64>>,
        starts: &[usize],
    ) -> usize {
        let mut readers = Vec::new();
        for turns in starts {
            for _ in 0..*turns {
                yield_now().await;
            }
            let committed = record.committed.fetch_add(1, Ordering::SeqCst) + 1;
            let answer = read();
            readers.push(tokio::spawn(async move { answer.await.unwrap() < committed }));
        }
        join_all(readers).await.into_iter().filter(|stale| *stale.as_ref().unwrap()).count()
    }

    proptest! {
        #[test]
        fn no_reader_is_answered_with_less_than_was_committed_when_it_began(
            turns in 0_usize..12,
            starts in prop::collection::vec(0_usize..6, 1..40),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let stale = runtime.block_on(async {
                let record = Growing::new(turns);
                let sharing = Sharing::of(&record);
                let read = move || {
                    let sharing = sharing.clone();
                    async move { sharing.read('b').await }.boxed()
                };
                stale_answers(record, read, &starts).await
            });
            prop_assert_eq!(stale, 0);
        }
    }

    #[tokio::test]
    async fn joining_a_read_that_is_under_way_is_caught_by_the_same_test() {
        let record = Growing::new(6);
        let (store, running) = (Arc::clone(&record), Mutex::new(None));
        let joins_running = move || {
            let mut running = running.lock();
            let fresh = || Arc::clone(&store).read().map(Result::unwrap).boxed().shared();
            let read = running.take().filter(|read: &futures_util::future::Shared<_>| read.peek().is_none());
            running.insert(read.unwrap_or_else(fresh)).clone().map(Ok).boxed()
        };
        assert!(stale_answers(record, joins_running, &[0, 3, 0, 2, 4, 1]).await > 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn readers_on_many_threads_see_every_commit_that_came_before_them() {
        let record = Growing::new(3);
        let sharing = Sharing::of(&record);
        let readers = (0..8).map(|_| {
            let (record, sharing) = (Arc::clone(&record), sharing.clone());
            tokio::spawn(async move {
                for _ in 0..500 {
                    let committed = record.committed.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(sharing.read('b').await.unwrap() >= committed);
                }
            })
        });
        join_all(readers).await.into_iter().for_each(Result::unwrap);
        sharing.idle().await;
    }

    // The paused clock moves only when no task can run. Here some task always can, so the timeout never expires.
    #[tokio::test(start_paused = true)]
    async fn a_thousand_readers_at_once_cost_two_reads() {
        let record = Growing::new(10);
        let sharing = Sharing::of(&record);
        let first = sharing.reader('b');
        while record.reads() == 0 {
            yield_now().await;
        }
        let answers = join_all((0..999).map(|_| sharing.read('b'))).await;
        assert!(first.await.unwrap().is_ok() && answers.iter().all(Result::is_ok));
        assert_eq!(record.reads(), 2);
        assert_eq!(sharing.flight.metrics.lookup_joins.get(), 998);
        sharing.idle().await;
    }

    #[tokio::test]
    async fn keys_are_read_apart() {
        let flight = SingleFlight::<char, u64>::new(&Arc::new(Metrics::new()));
        let read = |key, answer| flight.read(key, move || std::future::ready(Ok(answer)));
        let (one, other) = tokio::join!(read('b', 1), read('c', 2));
        assert_eq!((one.unwrap(), other.unwrap()), (1, 2));
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_takes_nothing_from_the_others() {
        let record = Growing::behind_a_gate(0);
        let sharing = Sharing::of(&record);
        let (first, second) = (sharing.reader('b'), sharing.reader('b'));
        while record.reads() == 0 {
            yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        record.gate.add_permits(10);
        assert_eq!(second.await.unwrap().unwrap(), 0);
        sharing.idle().await;
    }

    #[tokio::test(start_paused = true)]
    async fn every_reader_is_told_of_a_failure_and_the_next_reads_anew() {
        let record = Growing::new(1);
        let sharing = Sharing::of(&record);
        record.fails.store(true, Ordering::SeqCst);
        for answer in join_all((0..10).map(|_| sharing.read('b'))).await {
            let Err(StoreError::Unreadable(cause)) = answer else { panic!("{answer:?}") };
            assert_eq!(cause.to_string(), "as planned");
        }
        record.fails.store(false, Ordering::SeqCst);
        assert!(sharing.read('b').await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_panics_leaves_its_key_usable_and_takes_nothing_from_another_read_of_it() {
        let record = Growing::behind_a_gate(0);
        let sharing = Sharing::of(&record);
        let first = sharing.reader('b');
        while record.reads() == 0 {
            yield_now().await;
        }
        let second = sharing.reader('b');
        while record.reads() < 2 {
            tokio::time::sleep(SILENT_AFTER / 10).await;
        }
        record.panics.store(true, Ordering::SeqCst);
        record.gate.add_permits(1);
        assert!(matches!(first.await.unwrap(), Err(StoreError::Unavailable(_))));
        record.panics.store(false, Ordering::SeqCst);
        record.gate.add_permits(2);
        assert!(second.await.unwrap().is_ok());
        assert!(sharing.read('b').await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_whose_reads_hang_has_two_in_flight_and_refuses_the_rest_until_it_answers() {
        let record = Growing::behind_a_gate(0);
        let sharing = Sharing::of(&record);
        let read = || sharing.reader('b');
        let mut hanging = vec![read()];
        for reads in 1..=2 {
            let begun = async {
                while record.reads() < reads {
                    tokio::time::sleep(SILENT_AFTER / 10).await;
                }
            };
            tokio::time::timeout(SILENT_AFTER * 2, begun).await.expect("a read that hangs does not hold up the next");
            hanging.push(read());
        }
        tokio::time::sleep(HUNG_AFTER).await;
        for _ in 0..100 {
            assert!(read().await.unwrap().is_err(), "refused at once");
        }
        assert_eq!(record.reads(), 2);
        let other = sharing.reader('c');
        while record.reads() < 3 {
            yield_now().await;
        }
        record.gate.add_permits(Semaphore::MAX_PERMITS / 2);
        let answered = join_all(hanging).await.into_iter().map(|answer| answer.unwrap().is_ok());
        assert_eq!(answered.collect::<Vec<_>>(), [true, true, false]);
        assert!(other.await.unwrap().is_ok(), "another key is read all the same");
        assert!(read().await.unwrap().is_ok());
    }

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
