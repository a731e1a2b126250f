//! A store that counts its calls and fails as a test tells it to.

use tokio::time::Instant;

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handbill_pages::ports::page_store::{ChangeListener, Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::head::PageHead;
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::{Slug, SlugSecret};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Insert,
    /// A lookup, or a read of a head.
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

    async fn lookup(&self, slug: &Slug) -> Result<Option<Record>, StoreError> {
        self.pass(Operation::Lookup, None, self.inner.lookup(slug)).await
    }

    fn subscribe(&self, kept: Arc<dyn ChangeListener>) -> bool {
        self.inner.subscribe(kept)
    }

    async fn head(&self, slug: &Slug) -> Result<Option<Record<PageHead>>, StoreError> {
        self.pass(Operation::Lookup, None, self.inner.head(slug)).await
    }

    async fn put(&self, expected: Expected, next: Record, needed_by: Option<Instant>) -> Result<PutResult, StoreError> {
        let operation = if expected == Expected::Absent { Operation::Insert } else { Operation::Swap };
        let putting = self.inner.put(expected, next, needed_by);
        self.pass(operation, Some(PutResult::Refused), putting).await
    }
}
