//! Reads of the store that several callers share.
//!
//! A caller may join a read that has not begun, but not a running one, which may have seen the page before an
//! acknowledged write. So each caller waits for at most one running read.

use std::{hash::Hash, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use super::in_use::InUse;
use crate::ports::page_store::StoreError;

pub(super) struct SharedReads<K, T>(InUse<K, Reads<T>>);

struct Reads<T> {
    /// The running read holds this.
    running: AsyncMutex<()>,
    next: Mutex<Arc<Answer<T>>>,
}

type Answer<T> = OnceCell<Result<T, Arc<StoreError>>>;

impl<T> Default for Reads<T> {
    fn default() -> Self {
        Self { running: AsyncMutex::default(), next: Mutex::default() }
    }
}

impl<K, T> Default for SharedReads<K, T> {
    fn default() -> Self {
        Self(InUse::default())
    }
}

impl<K: Clone + Eq + Hash, T: Clone> SharedReads<K, T> {
    /// A read that begins after this call, by any caller's `load`.
    pub(super) async fn read(
        &self,
        key: &K,
        load: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let reads = self.0.take(key);
        let read = Arc::clone(&reads.next.lock());
        let answer = Box::pin(read.get_or_init(|| async {
            let _running = reads.running.lock().await;
            // Callers can join up to here.
            *reads.next.lock() = Arc::default();
            load.await.map_err(Arc::new)
        }));
        answer.await.clone().map_err(|error| match *error {
            StoreError::Unavailable(_) => StoreError::Unavailable(Box::new(error)),
            StoreError::OutcomeUnknown(_) => StoreError::OutcomeUnknown(Box::new(error)),
            StoreError::Unreadable(_) => StoreError::Unreadable(Box::new(error)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::{BoxFuture, Shared, join_all};
    use proptest::prelude::*;
    use tokio::sync::Semaphore;
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    type Read = Result<u64, StoreError>;

    /// A record whose number grows. A read notes the number when it starts and returns that number later: the oldest
    /// answer that the contract of stores allows.
    struct Growing {
        committed: AtomicU64,
        reads: AtomicU64,
        turns: usize,
        gate: Semaphore,
        fails: AtomicBool,
        panics: AtomicBool,
        shared: SharedReads<char, u64>,
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
            let gate = Semaphore::new(0);
            Arc::new(Self { committed, reads, turns, gate, fails, panics, shared: SharedReads::default() })
        }

        fn reads(&self) -> u64 {
            self.reads.load(Ordering::SeqCst)
        }

        async fn load(&self) -> Read {
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

        async fn read(&self) -> Read {
            self.shared.read(&'b', self.load()).await
        }

        /// A read in a task of its own.
        fn reader(self: &Arc<Self>) -> JoinHandle<Read> {
            tokio::spawn(read_of(Arc::clone(self)))
        }
    }

    async fn read_of(record: Arc<Growing>) -> Read {
        record.read().await
    }

    /// For each number in `starts`, yields that many times, commits, and starts a reader. Returns how many readers got
    /// an answer older than the last commit before their start.
    async fn stale_answers(
        record: Arc<Growing>,
        read: impl Fn() -> BoxFuture<'static, Read>,
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
        fn no_reader_gets_less_than_was_committed_when_it_began(
            turns in 0_usize..12,
            starts in prop::collection::vec(0_usize..6, 1..40),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let stale = runtime.block_on(async {
                let record = Growing::new(turns);
                let of = Arc::clone(&record);
                stale_answers(record, move || read_of(Arc::clone(&of)).boxed(), &starts).await
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
            let record = Arc::clone(&store);
            let read = running.take().filter(|read: &Shared<_>| read.peek().is_none());
            running
                .insert(read.unwrap_or_else(|| async move { record.load().await.unwrap() }.boxed().shared()))
                .clone()
                .map(Ok)
                .boxed()
        };
        assert!(stale_answers(record, joins_running, &[0, 3, 0, 2, 4, 1]).await > 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn readers_on_many_threads_see_every_earlier_commit() {
        let record = Growing::new(3);
        let readers = (0..8).map(|_| {
            let record = Arc::clone(&record);
            tokio::spawn(async move {
                for _ in 0..500 {
                    let committed = record.committed.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(record.read().await.unwrap() >= committed);
                }
            })
        });
        join_all(readers).await.into_iter().for_each(Result::unwrap);
        assert!(record.shared.0.is_empty());
    }

    #[tokio::test]
    async fn a_thousand_readers_at_once_cost_two_reads() {
        let record = Growing::behind_a_gate(0);
        let first = record.reader();
        while record.reads() == 0 {
            yield_now().await;
        }
        let others = tokio::spawn({
            let record = Arc::clone(&record);
            async move { join_all((0..999).map(|_| record.read())).await }
        });
        yield_now().await;
        record.gate.add_permits(1000);
        assert!(first.await.unwrap().is_ok() && others.await.unwrap().iter().all(Result::is_ok));
        assert_eq!(record.reads(), 2);
    }

    #[tokio::test]
    async fn keys_are_read_apart() {
        let shared = SharedReads::default();
        let (one, other) =
            tokio::join!(shared.read(&'b', std::future::ready(Ok(1))), shared.read(&'c', std::future::ready(Ok(2))));
        assert_eq!((one.unwrap(), other.unwrap()), (1, 2));
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_takes_nothing_from_the_others() {
        let record = Growing::behind_a_gate(0);
        let (first, second) = (record.reader(), record.reader());
        while record.reads() == 0 {
            yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        record.gate.add_permits(10);
        assert_eq!(second.await.unwrap().unwrap(), 0);
        assert!(record.shared.0.is_empty());
    }

    #[tokio::test]
    async fn every_reader_is_told_of_a_failure_and_the_next_reads_anew() {
        let record = Growing::new(1);
        record.fails.store(true, Ordering::SeqCst);
        for answer in join_all((0..10).map(|_| record.read())).await {
            let Err(StoreError::Unreadable(cause)) = answer else { panic!("{answer:?}") };
            assert_eq!(std::error::Error::source(&*cause).unwrap().to_string(), "as planned");
        }
        assert_eq!(record.reads(), 2, "the first had begun when the others came");
        record.fails.store(false, Ordering::SeqCst);
        assert!(record.read().await.is_ok());
    }

    #[tokio::test]
    async fn a_read_that_panics_leaves_its_key_usable() {
        let record = Growing::new(0);
        record.panics.store(true, Ordering::SeqCst);
        assert!(record.reader().await.unwrap_err().is_panic());
        record.panics.store(false, Ordering::SeqCst);
        assert!(record.read().await.is_ok());
        assert!(record.shared.0.is_empty());
    }
}
