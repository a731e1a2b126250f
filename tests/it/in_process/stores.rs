//! A store that counts its calls and fails as a test tells it to.

use tokio::time::Instant;

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handbill_pages::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_pages::values::page::{Page, PageHead, PageVersion, Tombstone};
use handbill_pages::values::slug::{Slug, SlugSecret};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Insert,
    /// A lookup, or a read of a head or of a head's page.
    Lookup,
    Swap,
}

pub(crate) enum Fault {
    Unavailable,
    /// The call is done, and its answer is lost.
    DoneButUnknown,
    /// The call is not done, and nobody can tell.
    NotDoneAndUnknown,
    Unreadable,
    Slow(Duration),
    Hang,
    Panic,
    /// A compare-and-set loses, or an insert finds its slug taken, though nothing stands in its way.
    Lose,
    /// Something else happens first; then the call is made.
    Meanwhile(Pin<Box<dyn Future<Output = ()> + Send>>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) inserts: usize,
    pub(crate) lookups: usize,
    pub(crate) swaps: usize,
}

impl Calls {
    fn of(&mut self, operation: Operation) -> &mut usize {
        match operation {
            Operation::Insert => &mut self.inserts,
            Operation::Lookup => &mut self.lookups,
            Operation::Swap => &mut self.swaps,
        }
    }
}

#[derive(Default)]
struct Plan {
    calls: Calls,
    next: VecDeque<(Operation, Fault)>,
    always: Vec<(Operation, fn() -> Fault)>,
}

/// A store around another: it does what the other does, except where a fault was planned.
pub(crate) struct WatchedStore {
    inner: Arc<dyn PageStore>,
    plan: Mutex<Plan>,
}

impl WatchedStore {
    pub(crate) fn around(inner: Arc<dyn PageStore>) -> Self {
        Self { inner, plan: Mutex::default() }
    }

    pub(crate) fn next(&self, operation: Operation, fault: Fault) {
        self.plan().next.push_back((operation, fault));
    }

    /// Plans a fault for every call of `operation`, until [`WatchedStore::heal`].
    pub(crate) fn always(&self, operation: Operation, fault: fn() -> Fault) {
        self.plan().always.push((operation, fault));
    }

    pub(crate) fn heal(&self) {
        let mut plan = self.plan();
        plan.next.clear();
        plan.always.clear();
    }

    pub(crate) fn calls(&self) -> Calls {
        self.plan().calls
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_planned(&self, operation: Operation) -> bool {
        let plan = self.plan();
        let next = plan.next.iter().map(|(planned, _)| planned);
        next.chain(plan.always.iter().map(|(planned, _)| planned)).any(|planned| *planned == operation)
    }

    fn enter(&self, operation: Operation) -> Option<Fault> {
        let mut plan = self.plan();
        *plan.calls.of(operation) += 1;
        let planned = plan.next.iter().position(|(planned, _)| *planned == operation);
        planned
            .and_then(|at| plan.next.remove(at))
            .map(|(_, fault)| fault)
            .or_else(|| plan.always.iter().find(|(planned, _)| *planned == operation).map(|(_, fault)| fault()))
    }

    async fn pass<T>(
        &self,
        operation: Operation,
        lost: Option<T>,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.enter(operation) {
            None => call.await,
            Some(Fault::Unavailable) => Err(StoreError::Unavailable("planned".into())),
            Some(Fault::DoneButUnknown) => {
                call.await?;
                Err(StoreError::OutcomeUnknown("planned".into()))
            }
            Some(Fault::NotDoneAndUnknown) => Err(StoreError::OutcomeUnknown("planned".into())),
            Some(Fault::Unreadable) => Err(StoreError::Unreadable("planned".into())),
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                call.await
            }
            Some(Fault::Hang) => pending().await,
            Some(Fault::Panic) => panic!("planned"),
            Some(Fault::Lose) => Ok(lost.expect("a lookup has nothing to lose")),
            Some(Fault::Meanwhile(other)) => {
                other.await;
                call.await
            }
        }
    }
}

#[async_trait]
impl PageStore for WatchedStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        self.inner.slug_secret().await
    }

    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError> {
        let other = InsertResult::SlugTaken(Record::Deleted(page.head.tombstone(page.head.created_at)));
        self.pass(Operation::Insert, Some(other), self.inner.insert_if_absent(page, needed_by)).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.pass(Operation::Lookup, None, self.inner.lookup(slug)).await
    }

    fn mark(&self, slug: &Slug) -> Option<u64> {
        // A planned fault is for the next call, so a page that is ready must not take its place.
        if self.is_planned(Operation::Lookup) { None } else { self.inner.mark(slug) }
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        self.pass(Operation::Lookup, None, self.inner.head(slug)).await
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        self.pass(Operation::Lookup, None, self.inner.page(head)).await
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        let swapping = self.inner.compare_and_set(expected, next, needed_by);
        self.pass(Operation::Swap, Some(CasResult::Stale), swapping).await
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        let deleting = self.inner.delete_unreadable(tombstone);
        self.pass(Operation::Swap, Some(CasResult::Stale), deleting).await
    }
}
