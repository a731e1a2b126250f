//! A store that other replicas write to, as a cluster's, and counts the pages that are read of it.
//!
//! It does everything on the thread of its caller, so that a test can stop the clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use handbill_pages::ports::page_store::{Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::head::PageHead;
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::{SECRET_BYTES, Slug, SlugSecret};
use tokio::task::yield_now;

use tokio::time::Instant;

use super::app::{Setup, TestApp};

#[derive(Default)]
struct State {
    records: HashMap<Slug, Record>,
    lookups: usize,
}

/// A store in memory of which no caller knows the present states.
#[derive(Default)]
pub(crate) struct HeadsFirst(Mutex<State>);

/// A replica over `store`, with a cache of its own.
pub(crate) fn replica(store: &Arc<HeadsFirst>) -> TestApp {
    Setup::new().over(Arc::clone(store) as Arc<dyn PageStore>).start()
}

impl HeadsFirst {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// How many pages were read with their text.
    pub(crate) fn lookups(&self) -> usize {
        self.state().lookups
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets other requests go on, then reads the record under `slug`.
    async fn read(&self, slug: &Slug) -> Option<Record> {
        yield_now().await;
        self.state().records.get(slug).cloned()
    }
}

#[async_trait]
impl PageStore for HeadsFirst {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        Ok(SlugSecret::from_bytes([7; SECRET_BYTES]))
    }

    async fn lookup(&self, slug: &Slug) -> Result<Option<Record>, StoreError> {
        self.state().lookups += 1;
        Ok(self.read(slug).await)
    }

    async fn head(&self, slug: &Slug) -> Result<Option<Record<PageHead>>, StoreError> {
        Ok(self.read(slug).await.map(|found| found.map(|page| page.head.clone())))
    }

    async fn put(&self, expected: Expected, next: Record, _: Option<Instant>) -> Result<PutResult, StoreError> {
        // A write takes longer than a read.
        for _ in 0..3 {
            yield_now().await;
        }
        let mut state = self.state();
        let is_expected = match state.records.get(next.slug()) {
            Some(Record::Active(page) | Record::Hidden(page, _)) => expected == Expected::page(&page.head),
            Some(Record::Deleted(_)) => false,
            None => expected == Expected::Absent,
        };
        if !is_expected {
            return Ok(PutResult::Refused);
        }
        state.records.insert(next.slug().clone(), next);
        Ok(PutResult::Done)
    }
}
