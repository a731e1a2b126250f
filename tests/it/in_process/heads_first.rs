//! A store that other replicas write to, as a cluster's, and counts what is read of it.
//!
//! It does everything on the thread of its caller, so that a test can stop the clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use handbill_pages::ports::page_store::{Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::head::PageHead;
use handbill_pages::values::record::{Lookup, Record};
use handbill_pages::values::slug::{SECRET_BYTES, Slug, SlugSecret};
use tokio::task::yield_now;

use tokio::time::Instant;

use super::app::{Setup, TestApp};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) heads: usize,
    pub(crate) lookups: usize,
}

#[derive(Default)]
struct State {
    records: HashMap<Slug, Record>,
    reads: Reads,
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

    pub(crate) fn take_reads(&self) -> Reads {
        std::mem::take(&mut self.state().reads)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets other requests go on, then reads the record under `slug`.
    async fn read(&self, slug: &Slug, count: impl FnOnce(&mut Reads)) -> Lookup {
        yield_now().await;
        let mut state = self.state();
        count(&mut state.reads);
        state.records.get(slug).cloned().into()
    }
}

#[async_trait]
impl PageStore for HeadsFirst {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        Ok(SlugSecret::from_bytes([7; SECRET_BYTES]))
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        Ok(self.read(slug, |reads| reads.lookups += 1).await)
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        Ok(self.read(slug, |reads| reads.heads += 1).await.map(|page| page.head.clone()))
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
