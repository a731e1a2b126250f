//! Stores around a good one: broken ones, which the test must catch, and one that only leaves its callers in doubt.

use tokio::time::Instant;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handbill_pages::ports::page_store::{ChangeListener, Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::head::PageHead;
use handbill_pages::values::page::Page;
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::{SECRET_BYTES, Slug, SlugSecret};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A lookup sometimes answers with the page from before the last change that the lookup knows of.
    StaleRead,
    /// The store tells the caches of no change.
    UntoldChange,
    /// Texts are kept apart from heads. This is correct behaviour.
    TextsApart,
    /// Texts are kept apart from heads, and a head is sometimes the one from before the last change that the store knows
    /// of. So a page in memory passes for current.
    StaleHead,
    /// A compare-and-set sometimes reports success without any effect.
    LostSwap,
    /// A compare-and-set takes effect without a check of the version.
    UncheckedSwap,
    /// A deleted page can sometimes be read again.
    Revival,
    /// Every other replica reads another secret for slugs, so that a create that is repeated there makes a second page.
    SecondPage,
    /// An insert sometimes reports success without any effect.
    LostInsert,
    /// A compare-and-set sometimes takes effect, but its caller is told that nothing was changed.
    FalseDenial,
    /// The caller of an insert or a compare-and-set is sometimes told that the outcome is unknown, whether it took effect or not.
    /// This is correct behaviour.
    Silence,
}

/// A fault that does not strike on every call strikes on one call in this many, unless [`rarity`] says otherwise.
const RARITY: usize = 50;

fn rarity(fault: Fault) -> usize {
    match fault {
        // It shows only where the replica still has the old page in memory, which about one in twenty does.
        Fault::StaleHead => 5,
        // A replica reads the secret once.
        Fault::SecondPage => 2,
        // There is hardly more than one for each page.
        Fault::LostInsert => 10,
        _ => RARITY,
    }
}

pub(crate) struct FaultyStore {
    inner: Arc<dyn PageStore>,
    fault: Fault,
    calls: AtomicUsize,
    /// The page under each slug as it was before its last change.
    before: Mutex<HashMap<Slug, Arc<Page>>>,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<dyn PageStore>, fault: Fault) -> Self {
        Self { inner, fault, calls: AtomicUsize::new(0), before: Mutex::default() }
    }

    fn strikes(&self, fault: Fault) -> bool {
        let rarity = rarity(fault);
        self.fault == fault && self.calls.fetch_add(1, Ordering::Relaxed) % rarity == rarity - 1
    }

    fn before(&self, slug: &Slug) -> Option<Arc<Page>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).get(slug).cloned()
    }

    /// The record that a lookup shows in place of `found`.
    fn shown(&self, slug: &Slug, found: Option<Record>) -> Option<Record> {
        match (found, self.before(slug)) {
            (Some(Record::Active(_)), Some(before)) if self.strikes(Fault::StaleRead) => Some(Record::Active(before)),
            (Some(Record::Deleted(_)), Some(before)) if self.strikes(Fault::Revival) => Some(Record::Active(before)),
            (found, _) => found,
        }
    }

    async fn swap(
        &self,
        expected: Expected,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<PutResult, StoreError> {
        let slug = next.slug().clone();
        let standing = self.inner.lookup(&slug).await?;
        let swapped = self.inner.put(expected, next, needed_by).await?;
        if let (PutResult::Done, Some(Record::Active(page))) = (swapped, standing) {
            self.before.lock().unwrap_or_else(PoisonError::into_inner).insert(slug, page);
        }
        Ok(swapped)
    }
}

#[async_trait]
impl PageStore for FaultyStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        if self.strikes(Fault::SecondPage) {
            return Ok(SlugSecret::from_bytes([0; SECRET_BYTES]));
        }
        self.inner.slug_secret().await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Option<Record>, StoreError> {
        self.inner.lookup(slug).await.map(|found| self.shown(slug, found))
    }

    fn subscribe(&self, kept: Arc<dyn ChangeListener>) -> bool {
        match self.fault {
            Fault::UntoldChange => true,
            Fault::Silence => self.inner.subscribe(kept),
            // Pages that are ready would hide the faults of the store.
            _ => false,
        }
    }

    async fn head(&self, slug: &Slug) -> Result<Option<Record<PageHead>>, StoreError> {
        if matches!(self.fault, Fault::TextsApart | Fault::StaleHead) {
            let found = self.inner.head(slug).await?;
            return Ok(match (found, self.before(slug)) {
                (Some(Record::Active(_)), Some(before)) if self.strikes(Fault::StaleHead) => {
                    Some(Record::Active(before.head.clone()))
                }
                (found, _) => found,
            });
        }
        Ok(self.lookup(slug).await?.map(|found| found.map(|page| page.head.clone())))
    }

    async fn put(&self, expected: Expected, next: Record, needed_by: Option<Instant>) -> Result<PutResult, StoreError> {
        if expected == Expected::Absent {
            if self.strikes(Fault::LostInsert) {
                return Ok(PutResult::Done);
            }
            let done = self.inner.put(expected, next, needed_by).await;
            return if self.strikes(Fault::Silence) { done.and(Err(unknown())) } else { done };
        }
        if self.strikes(Fault::LostSwap) {
            return Ok(PutResult::Done);
        }
        if self.strikes(Fault::FalseDenial) {
            self.swap(expected, next, needed_by).await?;
            return Err(StoreError::Unavailable("planned".into()));
        }
        if self.strikes(Fault::Silence) {
            if (self.calls.load(Ordering::Relaxed) / RARITY).is_multiple_of(2) {
                self.swap(expected, next, needed_by).await?;
            }
            return Err(unknown());
        }
        let expected = match (self.fault, self.inner.lookup(next.slug()).await?) {
            (Fault::UncheckedSwap, Some(Record::Active(standing))) => Expected::page(&standing.head),
            _ => expected,
        };
        self.swap(expected, next, needed_by).await
    }
}

fn unknown() -> StoreError {
    StoreError::OutcomeUnknown("as planned".into())
}
