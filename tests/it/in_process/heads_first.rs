//! A store that keeps texts apart from heads, as a cluster's does, and counts what is read of it.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handbill::backends::redb::RedbStore;
use handbill::domain::page::{Page, PageHead, PageVersion};
use handbill::domain::slug::Slug;
use handbill::ports::page_store::{CasResult, Head, InsertResult, Lookup, PageStore, Record, StoreError};

/// How often each kind of read was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) heads: usize,
    pub(crate) texts: usize,
    pub(crate) lookups: usize,
}

/// A store in memory of which no caller knows the present states.
pub(crate) struct HeadsFirst {
    inner: RedbStore,
    reads: Mutex<Reads>,
}

impl HeadsFirst {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { inner: RedbStore::in_memory().unwrap(), reads: Mutex::default() })
    }

    /// The reads since the last call of this.
    pub(crate) fn take_reads(&self) -> Reads {
        std::mem::take(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self, add: impl FnOnce(&mut Reads)) {
        add(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[async_trait]
impl PageStore for HeadsFirst {
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<InsertResult, StoreError> {
        self.inner.insert_if_absent(page).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.count(|reads| reads.lookups += 1);
        self.inner.lookup(slug).await
    }

    fn keeps_texts_apart(&self) -> bool {
        true
    }

    async fn head(&self, slug: &Slug) -> Result<Head, StoreError> {
        self.count(|reads| reads.heads += 1);
        self.inner.head(slug).await
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        self.count(|reads| reads.texts += 1);
        self.inner.page(head).await
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<CasResult, StoreError> {
        self.inner.compare_and_set(expected, next).await
    }
}
