//! The store of a process that is still connecting.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use thiserror::Error;

use super::store::CqlStore;
use crate::domain::page::{Page, PageHead, PageVersion};
use crate::domain::slug::Slug;
use crate::ports::page_store::{CasResult, Head, InsertResult, Lookup, PageStore, Record, StoreError};

/// A store that refuses every call as unavailable until it is [set](PendingStore::set).
#[derive(Default)]
pub struct PendingStore(OnceLock<CqlStore>);

/// The process has not reached the cluster since it started.
#[derive(Debug, Error)]
#[error("the database has not been reached yet")]
struct NotReachedError;

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
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<InsertResult, StoreError> {
        self.store()?.insert_if_absent(page).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.store()?.lookup(slug).await
    }

    fn keeps_texts_apart(&self) -> bool {
        true
    }

    async fn head(&self, slug: &Slug) -> Result<Head, StoreError> {
        self.store()?.head(slug).await
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        self.store()?.page(head).await
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<CasResult, StoreError> {
        self.store()?.compare_and_set(expected, next).await
    }
}
