//! Concurrent lookups of one slug share one read of the store, and so do concurrent reads of one head or one page.
//!
//! A lookup may only join a read that has not begun. The answer is then not older than the start of any of its lookups,
//! as [`PageStore::lookup`] promises. So however many lookups of a slug arrive, they wait for at most one read in
//! progress, and share the one read that follows it. An answer is not kept after it has been sent. `circuit_breaker`
//! says when the next read may begin.
//!
//! The reads of a slug run in a task of their own: a caller that disconnects takes nothing from the others, and a read
//! that panics leaves its slug usable.

use std::sync::Arc;

use async_trait::async_trait;

use tokio::time::Instant;

use super::single_flight::SingleFlight;
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::page::{Page, PageHead, PageState, PageVersion, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::slug_secret::SlugSecret;
use handbill_core::ports::page_store::{Access, CasResult, InsertResult, Lookup, PageStore, Record, StoreError};

type Answer<T> = Result<T, StoreError>;

type SharedPages = Arc<SingleFlight<(Slug, PageState), Option<Arc<Page>>>>;

/// A store whose concurrent reads of one kind and slug share a read. Writes pass through.
pub struct SingleFlightStore {
    store: Arc<dyn PageStore>,
    lookups: Arc<SingleFlight<Slug, Lookup>>,
    heads: Arc<SingleFlight<Slug, Lookup<PageHead>>>,
    pages: SharedPages,
}

impl SingleFlightStore {
    /// Wraps `store` so that its lookups share reads. Lookups need a Tokio runtime.
    pub fn new(store: Arc<dyn PageStore>, metrics: &Arc<Metrics>) -> Self {
        Self {
            store,
            lookups: SingleFlight::new(metrics),
            heads: SingleFlight::new(metrics),
            pages: SingleFlight::new(metrics),
        }
    }
}

#[async_trait]
impl PageStore for SingleFlightStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        self.store.slug_secret().await
    }

    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError> {
        self.store.insert_if_absent(page, needed_by).await
    }

    async fn lookup(&self, slug: &Slug) -> Answer<Lookup> {
        let (store, read_slug) = (Arc::clone(&self.store), slug.clone());
        let read = move || {
            let (store, slug) = (Arc::clone(&store), read_slug.clone());
            async move { store.lookup(&slug).await }
        };
        self.lookups.read(slug.clone(), read).await
    }

    async fn head(&self, slug: &Slug) -> Answer<Lookup<PageHead>> {
        let (store, read_slug) = (Arc::clone(&self.store), slug.clone());
        let read = move || {
            let (store, slug) = (Arc::clone(&store), read_slug.clone());
            async move { store.head(&slug).await }
        };
        self.heads.read(slug.clone(), read).await
    }

    async fn page(&self, head: &PageHead) -> Answer<Option<Arc<Page>>> {
        let (store, shared_head) = (Arc::clone(&self.store), Arc::new(head.clone()));
        let read = move || {
            let (store, head) = (Arc::clone(&store), Arc::clone(&shared_head));
            async move { store.page(&head).await }
        };
        self.pages.read((head.slug.clone(), head.state()), read).await
    }

    /// A read that does not wait is not shared. It holds its page no longer than its caller does.
    fn access(&self) -> Access<'_> {
        self.store.access()
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        self.store.compare_and_set(expected, next, needed_by).await
    }

    async fn ensure_in_ledger(&self, tombstone: &Tombstone) -> Result<(), StoreError> {
        self.store.ensure_in_ledger(tombstone).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::{BoxFuture, Shared as SharedFuture, join_all};
    use proptest::prelude::*;
    use tokio::sync::Semaphore;
    use tokio::task::{JoinHandle, yield_now};

    use super::super::circuit_breaker::{HUNG_AFTER, SILENT_AFTER};
    use super::*;
    use handbill_core::domain::page::Tombstone;
    use handbill_core::domain::timestamp::UnixMillis;

    fn slug(letter: char) -> Slug {
        Slug::parse(&format!("page-{}", letter.to_string().repeat(8))).unwrap()
    }

    /// A store with one record whose number grows. A read notes the number when it starts and returns that number
    /// later: the oldest answer that the contract allows.
    struct Growing {
        committed: AtomicU64,
        reads: AtomicU64,
        turns: usize,
        gate: Semaphore,
        fails: AtomicBool,
        panics: AtomicBool,
    }

    impl Growing {
        /// A store whose reads yield `turns` times and do not wait at the gate.
        fn new(turns: usize) -> Arc<Self> {
            let store = Self::behind_a_gate(turns);
            store.gate.add_permits(Semaphore::MAX_PERMITS);
            store
        }

        fn behind_a_gate(turns: usize) -> Arc<Self> {
            let (committed, reads) = (AtomicU64::new(0), AtomicU64::new(0));
            let (fails, panics) = (AtomicBool::new(false), AtomicBool::new(false));
            Arc::new(Self { committed, reads, turns, gate: Semaphore::new(0), fails, panics })
        }

        fn reads(&self) -> u64 {
            self.reads.load(Ordering::SeqCst)
        }

        fn commit(&self) {
            self.committed.fetch_add(1, Ordering::SeqCst);
        }

        fn committed(&self) -> u64 {
            self.committed.load(Ordering::SeqCst)
        }
    }

    #[async_trait]
    impl PageStore for Growing {
        async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
            unreachable!("these tests only read")
        }

        async fn insert_if_absent(&self, _: Arc<Page>, _: Option<Instant>) -> Result<InsertResult, StoreError> {
            unreachable!("these tests only read")
        }

        async fn lookup(&self, slug: &Slug) -> Answer<Lookup> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            let number = self.committed();
            for _ in 0..self.turns {
                yield_now().await;
            }
            self.gate.acquire().await.unwrap().forget();
            assert!(!self.panics.load(Ordering::SeqCst), "as planned");
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::Unreadable("as planned".into()));
            }
            let (version, never) = (PageVersion::new(number), UnixMillis::new(0));
            let slug = slug.clone();
            Ok(Lookup::Deleted(Tombstone { slug, version, created_at: never, deleted_at: never, takedown: None }))
        }

        fn access(&self) -> Access<'_> {
            Access::Whole
        }

        async fn head(&self, _: &Slug) -> Result<Lookup<PageHead>, StoreError> {
            unreachable!("these tests only look up")
        }

        async fn page(&self, _: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
            unreachable!("these tests only look up")
        }

        async fn compare_and_set(
            &self,
            _: PageVersion,
            _: Record,
            _: Option<Instant>,
        ) -> Result<CasResult, StoreError> {
            unreachable!("these tests only read")
        }

        async fn ensure_in_ledger(&self, _: &Tombstone) -> Result<(), StoreError> {
            unreachable!("these tests only read")
        }
    }

    /// A store with the fault that this module must not have: a lookup joins a read that has begun.
    struct JoinsRunning {
        store: Arc<dyn PageStore>,
        running: Mutex<Option<SharedFuture<BoxFuture<'static, Option<Lookup>>>>>,
    }

    #[async_trait]
    impl PageStore for JoinsRunning {
        async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
            self.store.slug_secret().await
        }

        async fn insert_if_absent(
            &self,
            page: Arc<Page>,
            needed_by: Option<Instant>,
        ) -> Result<InsertResult, StoreError> {
            self.store.insert_if_absent(page, needed_by).await
        }

        async fn lookup(&self, slug: &Slug) -> Answer<Lookup> {
            let read = {
                let mut running = self.running.lock().unwrap();
                let finished = running.as_ref().is_none_or(|read| read.peek().is_some());
                if finished {
                    let (store, slug) = (Arc::clone(&self.store), slug.clone());
                    *running = Some(async move { store.lookup(&slug).await.ok() }.boxed().shared());
                }
                running.clone().unwrap()
            };
            Ok(read.await.unwrap())
        }

        fn access(&self) -> Access<'_> {
            Access::Whole
        }

        async fn head(&self, _: &Slug) -> Result<Lookup<PageHead>, StoreError> {
            unreachable!("these tests only look up")
        }

        async fn page(&self, _: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
            unreachable!("these tests only look up")
        }

        async fn compare_and_set(
            &self,
            expected: PageVersion,
            next: Record,
            needed_by: Option<Instant>,
        ) -> Result<CasResult, StoreError> {
            self.store.compare_and_set(expected, next, needed_by).await
        }

        async fn ensure_in_ledger(&self, tombstone: &Tombstone) -> Result<(), StoreError> {
            self.store.ensure_in_ledger(tombstone).await
        }
    }

    fn number(answer: Answer<Lookup>) -> u64 {
        let Ok(Lookup::Deleted(tombstone)) = answer else { panic!("{answer:?}") };
        tombstone.version.get()
    }

    /// For each number in `starts`, yields that many times, commits, and starts a reader. Returns how many readers got
    /// an answer older than the last commit before their start.
    async fn stale_answers(store: Arc<Growing>, sharing: Arc<dyn PageStore>, starts: &[usize]) -> usize {
        let mut readers = Vec::new();
        for turns in starts {
            for _ in 0..*turns {
                yield_now().await;
            }
            store.commit();
            let (store, sharing) = (Arc::clone(&store), Arc::clone(&sharing));
            readers.push(tokio::spawn(async move {
                let committed = store.committed();
                number(sharing.lookup(&slug('b')).await) < committed
            }));
        }
        join_all(readers).await.into_iter().filter(|stale| *stale.as_ref().unwrap()).count()
    }

    fn sharing(store: &Arc<Growing>) -> Arc<SingleFlightStore> {
        Arc::new(SingleFlightStore::new(store.clone(), &Arc::new(Metrics::new())))
    }

    /// A lookup in a task of its own. The task returns whether there was an answer.
    fn reader(sharing: &Arc<SingleFlightStore>, letter: char) -> JoinHandle<bool> {
        let sharing = Arc::clone(sharing);
        tokio::spawn(async move { sharing.lookup(&slug(letter)).await.is_ok() })
    }

    proptest! {
        #[test]
        fn no_reader_is_answered_with_less_than_was_committed_when_it_began(
            turns in 0_usize..12,
            starts in prop::collection::vec(0_usize..6, 1..40),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let stale = runtime.block_on(async {
                let store = Growing::new(turns);
                stale_answers(store.clone(), sharing(&store), &starts).await
            });
            prop_assert_eq!(stale, 0);
        }
    }

    #[tokio::test]
    async fn joining_a_read_that_is_under_way_is_caught_by_the_same_test() {
        let store = Growing::new(6);
        let broken = Arc::new(JoinsRunning { store: store.clone(), running: Mutex::default() });
        assert!(stale_answers(store, broken, &[0, 3, 0, 2, 4, 1]).await > 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn readers_on_many_threads_see_every_commit_that_came_before_them() {
        let store = Growing::new(3);
        let sharing = sharing(&store);
        let readers = (0..8).map(|_| {
            let (store, sharing) = (store.clone(), sharing.clone());
            tokio::spawn(async move {
                for _ in 0..500 {
                    store.commit();
                    let committed = store.committed();
                    assert!(number(sharing.lookup(&slug('b')).await) >= committed);
                }
            })
        });
        join_all(readers).await.into_iter().for_each(Result::unwrap);
        while !sharing.lookups.is_idle() {
            yield_now().await;
        }
    }

    // The paused clock moves only when no task can run. Here some task always can, so the timeout never expires.
    #[tokio::test(start_paused = true)]
    async fn a_thousand_readers_at_once_cost_two_reads() {
        let store = Growing::new(10);
        let metrics = Arc::new(Metrics::new());
        let sharing = Arc::new(SingleFlightStore::new(store.clone(), &metrics));
        let first = reader(&sharing, 'b');
        while store.reads() == 0 {
            yield_now().await;
        }
        let answers = join_all((0..999).map(|_| async { sharing.lookup(&slug('b')).await.is_ok() })).await;
        assert!(first.await.unwrap() && answers.into_iter().all(|answered| answered));
        assert_eq!(store.reads(), 2);
        assert_eq!(metrics.lookup_joins.get(), 998);
        while !sharing.lookups.is_idle() {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn slugs_are_read_apart() {
        let store = Growing::new(3);
        let sharing = sharing(&store);
        let (one, other) = (slug('b'), slug('c'));
        let (first, second) = tokio::join!(sharing.lookup(&one), sharing.lookup(&other));
        assert!(matches!(first, Ok(Lookup::Deleted(tombstone)) if tombstone.slug == one));
        assert!(matches!(second, Ok(Lookup::Deleted(tombstone)) if tombstone.slug == other));
        assert_eq!(store.reads(), 2);
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_takes_nothing_from_the_others() {
        let store = Growing::behind_a_gate(0);
        let sharing = sharing(&store);
        let read = || {
            let sharing = sharing.clone();
            tokio::spawn(async move { number(sharing.lookup(&slug('b')).await) })
        };
        let first = read();
        let second = read();
        while store.reads() == 0 {
            yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        store.gate.add_permits(10);
        assert_eq!(second.await.unwrap(), 0);
        while !sharing.lookups.is_idle() {
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_reader_is_told_of_a_failure_and_the_next_reads_anew() {
        let store = Growing::new(1);
        let sharing = sharing(&store);
        store.fails.store(true, Ordering::SeqCst);
        for answer in join_all((0..10).map(|_| async { sharing.lookup(&slug('b')).await })).await {
            let Err(StoreError::Unreadable(cause)) = answer else { panic!("{answer:?}") };
            assert_eq!(cause.to_string(), "as planned");
        }
        store.fails.store(false, Ordering::SeqCst);
        assert!(sharing.lookup(&slug('b')).await.is_ok());
    }

    #[tokio::test]
    async fn a_read_that_panics_leaves_its_slug_usable() {
        let store = Growing::new(0);
        let sharing = sharing(&store);
        store.panics.store(true, Ordering::SeqCst);
        assert!(matches!(sharing.lookup(&slug('b')).await, Err(StoreError::Unavailable(_))));
        store.panics.store(false, Ordering::SeqCst);
        assert!(sharing.lookup(&slug('b')).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_panics_takes_nothing_from_another_of_its_slug() {
        let store = Growing::behind_a_gate(0);
        let sharing = sharing(&store);
        let read = || reader(&sharing, 'b');
        let first = read();
        while store.reads() == 0 {
            yield_now().await;
        }
        let second = read();
        while store.reads() < 2 {
            tokio::time::sleep(SILENT_AFTER / 10).await;
        }
        store.panics.store(true, Ordering::SeqCst);
        store.gate.add_permits(1);
        assert!(!first.await.unwrap());
        store.panics.store(false, Ordering::SeqCst);
        store.gate.add_permits(1);
        assert!(second.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slug_whose_reads_hang_has_two_in_flight_and_refuses_the_rest_until_it_answers() {
        let store = Growing::behind_a_gate(0);
        let sharing = sharing(&store);
        let read = || reader(&sharing, 'b');
        let mut hanging = vec![read()];
        for reads in 1..=2 {
            while store.reads() < reads {
                tokio::time::sleep(SILENT_AFTER / 10).await;
            }
            hanging.push(read());
        }
        tokio::time::sleep(HUNG_AFTER).await;
        for _ in 0..100 {
            assert!(!read().await.unwrap(), "refused at once");
        }
        assert_eq!(store.reads(), 2);
        let other = reader(&sharing, 'c');
        while store.reads() < 3 {
            yield_now().await;
        }
        store.gate.add_permits(Semaphore::MAX_PERMITS / 2);
        assert_eq!(join_all(hanging).await.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [true, true, false]);
        assert!(other.await.unwrap(), "another slug is read all the same");
        assert!(read().await.unwrap());
    }

    // The paused clock moves as soon as all tasks wait. The hung read never ends, so the timeout expires.
    #[tokio::test(start_paused = true)]
    async fn a_read_that_hangs_does_not_hold_up_those_that_come_after_it() {
        let store = Growing::behind_a_gate(0);
        let sharing = sharing(&store);
        let hanging = reader(&sharing, 'b');
        while store.reads() == 0 {
            yield_now().await;
        }
        let later = reader(&sharing, 'b');
        tokio::time::timeout(SILENT_AFTER * 2, async {
            while store.reads() < 2 {
                tokio::time::sleep(SILENT_AFTER / 10).await;
            }
        })
        .await
        .expect("the second began while the first hung");
        store.gate.add_permits(2);
        assert!(later.await.unwrap() && hanging.await.unwrap());
    }
}
