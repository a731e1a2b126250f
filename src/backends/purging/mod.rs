//! Purges pages from shared caches once they have changed, and before anybody hears of it (contract, decision 21).

mod caches;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

pub use self::caches::{Caches, PurgeError};
pub use self::queue::Purges;
use crate::config::EdgeSettings;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans::with_current_span;
use handbill_core::domain::edge_caching::EdgeCaching;
use handbill_core::domain::origin::Origin;
use handbill_core::domain::page::{Page, PageHead, PageVersion, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::slug_secret::SlugSecret;
use handbill_core::ports::page_store::{Access, CasResult, InsertResult, Lookup, PageStore, Record, StoreError};

/// How long a write waits for its purge: a cache that cannot be reached must not stop writes.
const PURGE_WAIT: Duration = Duration::from_secs(1);

/// How long a write and its purge may take together: a slow write leaves its purge less time, so that the service still
/// hears in time that the write was made.
const WRITE_AND_PURGE: Duration = Duration::from_millis(2600);

/// A store whose changes are purged from shared caches.
pub struct Purging {
    inner: Arc<dyn PageStore>,
    purges: Purges,
}

impl Purging {
    /// `inner`, whose changes are made known to `purges`.
    pub fn new(inner: Arc<dyn PageStore>, purges: Purges) -> Self {
        Self { inner, purges }
    }

    /// `store`, whose changes are purged from the caches of `settings`, if there are any.
    pub fn around(
        store: Arc<dyn PageStore>,
        settings: &EdgeSettings,
        base_url: &Origin,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<dyn PageStore>, PurgeError> {
        let bound = settings.caching().map(EdgeCaching::bound);
        if let Some(bound) = bound {
            let bound = humantime::format_duration(bound).to_string();
            tracing::info!(bound, "shared caches may show a page for this long after it was changed or deleted");
        }
        let Some(caches) = Caches::of(settings, base_url)? else { return Ok(store) };
        Ok(Arc::new(Self::new(store, Purges::start(caches, bound.unwrap_or_default(), metrics))))
    }
}

impl Purging {
    /// Does `write` of the page under `slug`, and purges it. The write goes on although its caller may stop waiting, so that its
    /// purge follows it in any case.
    async fn purged(
        &self,
        slug: Slug,
        write: impl Future<Output = Result<CasResult, StoreError>> + Send + 'static,
    ) -> Result<CasResult, StoreError> {
        let purges = self.purges.clone();
        let work = with_current_span(async move {
            let began = Instant::now();
            let result = write.await;
            if matches!(result, Ok(CasResult::Swapped) | Err(StoreError::OutcomeUnknown(_))) {
                let left = WRITE_AND_PURGE.saturating_sub(began.elapsed());
                purges.purge(&slug, left.min(PURGE_WAIT)).await;
            }
            result
        });
        tokio::spawn(work).await.unwrap_or_else(|error| Err(StoreError::OutcomeUnknown(Box::new(error))))
    }
}

#[async_trait]
impl PageStore for Purging {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        self.inner.slug_secret().await
    }

    /// No cache keeps a page that was not there.
    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError> {
        self.inner.insert_if_absent(page, needed_by).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.inner.lookup(slug).await
    }

    fn access(&self) -> Access<'_> {
        self.inner.access()
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        self.inner.head(slug).await
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        self.inner.page(head).await
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        let (inner, slug) = (Arc::clone(&self.inner), next.slug().clone());
        self.purged(slug, async move { inner.compare_and_set(expected, next, needed_by).await }).await
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        let (inner, slug) = (Arc::clone(&self.inner), tombstone.slug.clone());
        self.purged(slug, async move { inner.delete_unreadable(tombstone).await }).await
    }

    async fn ensure_in_ledger(&self, record: &Record) -> Result<(), StoreError> {
        self.inner.ensure_in_ledger(record).await
    }
}
