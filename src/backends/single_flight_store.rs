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

    fn access(&self) -> Access {
        self.store.access()
    }

    fn mark(&self, slug: &Slug) -> Option<u64> {
        self.store.mark(slug)
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        self.store.compare_and_set(expected, next, needed_by).await
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        self.store.delete_unreadable(tombstone).await
    }
}
