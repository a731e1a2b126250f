//! The store for service and operators, whose calls are observed and shared.

use std::sync::Arc;

use tokio::time::Instant;

use super::instruments::{CallMetrics, Instruments};
use super::shared_reads::SharedReads;
use crate::ports::clock::SharedClock;
use crate::ports::page_store::{ChangeListener, Expected, PageStore, PutResult, StoreError};
use crate::values::slug::{Slug, SlugSecret};
use crate::values::{head::PageHead, record::Record};

/// Concurrent reads of one page share a call. Clones share it.
#[derive(Clone)]
pub struct SharedStore {
    store: Arc<dyn PageStore>,
    calls: Instruments,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    lookups: SharedReads<Slug, Option<Record>>,
    heads: SharedReads<Slug, Option<Record<PageHead>>>,
}

impl SharedStore {
    pub fn new(store: Arc<dyn PageStore>, metrics: CallMetrics, clock: SharedClock) -> Self {
        Self { store, calls: Instruments::new(metrics, clock), shared: Arc::default() }
    }

    /// For the other parts of the same service.
    pub(super) fn calls(&self) -> &Instruments {
        &self.calls
    }

    async fn call<T>(
        &self,
        operation: &'static str,
        name: impl Fn(&T) -> &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.calls.store_call(self.store.system(), operation, name, call).await
    }

    pub(super) fn subscribe(&self, listener: Arc<dyn ChangeListener>) -> bool {
        self.store.subscribe(listener)
    }

    pub(super) async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        self.store.slug_secret().await
    }

    pub(super) async fn lookup(&self, slug: &Slug) -> Result<Option<Record>, StoreError> {
        let load = async { self.call("lookup", |found| name_of(found.as_ref()), self.store.lookup(slug)).await };
        self.shared.lookups.read(slug, load).await
    }

    pub(super) async fn head(&self, slug: &Slug) -> Result<Option<Record<PageHead>>, StoreError> {
        let load = async { self.call("head", |found| name_of(found.as_ref()), self.store.head(slug)).await };
        self.shared.heads.read(slug, load).await
    }

    pub(super) async fn put(
        &self,
        expected: Expected,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<PutResult, StoreError> {
        let (operation, refused) = match expected {
            Expected::Absent => ("insert_if_absent", "slug_taken"),
            Expected::State(..) => ("compare_and_set", "stale"),
            Expected::Unreadable => ("delete_unreadable", "stale"),
        };
        let put = self.store.put(expected, next, needed_by);
        self.call(operation, |answer| if *answer == PutResult::Done { "done" } else { refused }, put).await
    }
}

fn name_of<T>(found: Option<&Record<T>>) -> &'static str {
    found.map_or("absent", Record::name)
}
