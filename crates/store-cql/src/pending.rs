//! The store of a process that is still connecting.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::time::Instant;

use super::store::CqlStore;
use crate::domain::page::{Page, PageHead, PageState, PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::slug_secret::SlugSecret;
use crate::domain::takedown::Visibility;
use crate::domain::timestamp::UnixMillis;
use crate::ports::creates_switch::CreatesSwitch;
use crate::ports::page_import::PageImport;
use crate::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit};
use crate::ports::page_store::{
    Access, CasResult, InsertResult, Lookup, NotReachedError, PageStore, Record, StoreError,
};

/// A store that refuses every call as unavailable until it is [set](PendingStore::set).
///
/// Operators use it too: until then there is nothing to list, to scan or to switch.
#[derive(Default)]
pub struct PendingStore(OnceLock<CqlStore>);

impl PendingStore {
    /// Uses `store` from now on. Only the first call counts.
    pub fn set(&self, store: CqlStore) {
        // A store that was set before works just as well.
        let _ = self.0.set(store);
    }

    fn store(&self) -> Result<&CqlStore, StoreError> {
        self.0.get().ok_or_else(|| StoreError::Unavailable(Box::new(NotReachedError)))
    }
}

#[async_trait]
impl PageStore for PendingStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        self.store()?.slug_secret().await
    }

    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError> {
        self.store()?.insert_if_absent(page, needed_by).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.store()?.lookup(slug).await
    }

    fn access(&self) -> Access {
        Access::HeadFirst
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        self.store()?.head(slug).await
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        self.store()?.page(head).await
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        self.store()?.compare_and_set(expected, next, needed_by).await
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        self.store()?.delete_unreadable(tombstone).await
    }
}

#[async_trait]
impl PageScan for PendingStore {
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        self.store()?.scan(after, limit).await
    }

    async fn estimated_records(&self) -> Result<Option<u64>, StoreError> {
        self.store()?.estimated_records().await
    }
}

#[async_trait]
impl CreatesSwitch for PendingStore {
    async fn paused(&self) -> Result<bool, StoreError> {
        self.store()?.paused().await
    }

    async fn set_paused(&self, paused: bool) -> Result<(), StoreError> {
        self.store()?.set_paused(paused).await
    }
}

#[async_trait]
impl PageImport for PendingStore {
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone, now: UnixMillis) -> Result<bool, StoreError> {
        self.store()?.insert_tombstone_if_absent(tombstone, now).await
    }

    async fn replace(&self, expected: PageState, next: Record, now: UnixMillis) -> Result<CasResult, StoreError> {
        self.store()?.replace(expected, next, now).await
    }

    async fn visibility(&self, slug: &Slug) -> Result<Option<Visibility>, StoreError> {
        self.store()?.visibility(slug).await
    }

    async fn keep_visibility(&self, visibility: Visibility) -> Result<bool, StoreError> {
        self.store()?.keep_visibility(visibility).await
    }
}
