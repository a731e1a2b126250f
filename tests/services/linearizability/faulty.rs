//! Stores around a good one: broken ones, which the test must catch, and one that only keeps its callers in the dark.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handbill::domain::page::{Page, PageVersion};
use handbill::domain::slug::Slug;
use handbill::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A lookup sometimes answers what stood there before the last change that it knows of.
    StaleRead,
    /// A compare-and-set is sometimes answered as done and not made.
    LostSwap,
    /// A compare-and-set is made without a look at the version.
    UncheckedSwap,
    /// A page that was deleted can sometimes be read again.
    Revival,
    /// An insert is sometimes answered as done and not made.
    LostInsert,
    /// A compare-and-set is sometimes made, and its caller told that nothing was changed.
    FalseDenial,
    /// A compare-and-set is sometimes made or not made, and its caller told that this is unknown. Nothing is wrong
    /// with that.
    Silence,
}

/// How rare the faults are that do not strike every time: in how many calls there is one.
const RARITY: usize = 50;

/// A store with a fault.
pub(crate) struct FaultyStore {
    inner: Arc<dyn PageStore>,
    fault: Fault,
    calls: AtomicUsize,
    /// The page that stood under each slug before its last change.
    before: Mutex<HashMap<Slug, Arc<Page>>>,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<dyn PageStore>, fault: Fault) -> Self {
        Self { inner, fault, calls: AtomicUsize::new(0), before: Mutex::default() }
    }

    /// Whether `fault` strikes this call.
    fn strikes(&self, fault: Fault) -> bool {
        self.fault == fault && self.calls.fetch_add(1, Ordering::Relaxed) % RARITY == RARITY - 1
    }

    fn before(&self, slug: &Slug) -> Option<Arc<Page>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).get(slug).cloned()
    }

    async fn swap(&self, expected: PageVersion, next: Record) -> Result<CasResult, StoreError> {
        let slug = next.slug().clone();
        let standing = self.inner.lookup(&slug).await?;
        let swapped = self.inner.compare_and_set(expected, next).await?;
        if let (CasResult::Swapped, Lookup::Active(page)) = (swapped, standing) {
            self.before.lock().unwrap_or_else(PoisonError::into_inner).insert(slug, page);
        }
        Ok(swapped)
    }
}

#[async_trait]
impl PageStore for FaultyStore {
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<InsertResult, StoreError> {
        if self.strikes(Fault::LostInsert) {
            return Ok(InsertResult::Inserted);
        }
        self.inner.insert_if_absent(page).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let found = self.inner.lookup(slug).await?;
        Ok(match (found, self.before(slug)) {
            (Lookup::Active(_), Some(before)) if self.strikes(Fault::StaleRead) => Lookup::Active(before),
            (Lookup::Deleted(_), Some(before)) if self.strikes(Fault::Revival) => Lookup::Active(before),
            (found, _) => found,
        })
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<CasResult, StoreError> {
        if self.strikes(Fault::LostSwap) {
            return Ok(CasResult::Swapped);
        }
        if self.strikes(Fault::FalseDenial) {
            self.swap(expected, next).await?;
            return Err(StoreError::Unavailable("planned".into()));
        }
        if self.strikes(Fault::Silence) {
            // Which of the two it is alternates.
            if (self.calls.load(Ordering::Relaxed) / RARITY).is_multiple_of(2) {
                self.swap(expected, next).await?;
            }
            return Err(StoreError::OutcomeUnknown("planned".into()));
        }
        let expected = match (self.fault, self.inner.lookup(next.slug()).await?) {
            (Fault::UncheckedSwap, Lookup::Active(standing)) => standing.version,
            _ => expected,
        };
        self.swap(expected, next).await
    }
}
