//! The store for service and operators, whose calls are observed and shared.

use std::sync::Arc;

use tokio::time::Instant;

use super::instruments::{CallMetrics, Instruments};
use super::shared_reads::SharedReads;
use crate::ports::clock::SharedClock;
use crate::ports::page_store::{ChangeListener, Expected, PageStore, PutResult, StoreError};
use crate::values::head::PageHead;
use crate::values::record::{Lookup, Record};
use crate::values::slug::{Slug, SlugSecret};

/// Concurrent reads of one page share a call. Clones share it.
#[derive(Clone)]
pub struct SharedStore {
    store: Arc<dyn PageStore>,
    calls: Instruments,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    lookups: SharedReads<Slug, Lookup>,
    heads: SharedReads<Slug, Lookup<PageHead>>,
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

    pub(super) async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let load = async { self.call("lookup", Lookup::name, self.store.lookup(slug)).await };
        self.shared.lookups.read(slug, load).await
    }

    pub(super) async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        let load = async { self.call("head", Lookup::name, self.store.head(slug)).await };
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
        let name = |answer: &PutResult| if *answer == PutResult::Done { "done" } else { refused };
        self.call(operation, name, self.store.put(expected, next, needed_by)).await
    }
}
