//! Concurrent lookups of one slug share one read of the store.
//!
//! A lookup may join only a read that has not begun: the answer is then not older than the start of any that asked for
//! it, which is what [`PageStore::lookup`] promises. So a slug has at most one read that its readers wait behind and
//! one that gathers readers meanwhile, however many come. Nothing is kept once it has been answered.
//!
//! Reads run in tasks of their own: a reader that goes away takes nothing from the others, and a read that panics
//! leaves its slug usable.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Instrument;

use crate::domain::page::{Page, PageVersion};
use crate::domain::slug::Slug;
use crate::store::{Inserted, Lookup, PageStore, Record, StoreError, Swapped};
use crate::telemetry::metrics::Metrics;

/// How long gathered readers wait behind a read that does not end. Then theirs begins beside it, so that one hung read
/// costs those after it no more than this on top of their own.
const PATIENCE: Duration = Duration::from_millis(100);

type Answer = Result<Lookup, StoreError>;

/// Those who wait for a read that has not begun.
type Readers = Vec<oneshot::Sender<Answer>>;

/// A store whose concurrent lookups of one slug share a read. Writes pass through.
pub struct SingleFlight {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn PageStore>,
    metrics: Arc<Metrics>,
    /// By slug, who waits for the read that is to begin next. A slug stands here while a task reads it.
    gathering: Mutex<HashMap<Slug, Readers>>,
}

impl SingleFlight {
    /// `store`, with shared lookups. To be used within a Tokio runtime.
    pub fn new(store: Arc<dyn PageStore>, metrics: Arc<Metrics>) -> Self {
        Self { shared: Arc::new(Shared { store, metrics, gathering: Mutex::default() }) }
    }

    /// How many slugs are being read.
    pub fn slugs_in_flight(&self) -> usize {
        self.shared.gathering().len()
    }
}

#[async_trait]
impl PageStore for SingleFlight {
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<Inserted, StoreError> {
        self.shared.store.insert_if_absent(page).await
    }

    async fn lookup(&self, slug: &Slug) -> Answer {
        let (reader, answer) = oneshot::channel();
        if self.shared.gather(slug, reader) {
            tokio::spawn(Arc::clone(&self.shared).read_while_wanted(slug.clone()).in_current_span());
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable(Box::new(ReadBroken))))
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<Swapped, StoreError> {
        self.shared.store.compare_and_set(expected, next).await
    }
}

impl Shared {
    fn gathering(&self) -> MutexGuard<'_, HashMap<Slug, Readers>> {
        // Nothing panics while it is held, so what it guards is whole.
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reader to the next read of `slug`, and tells whether a task must be started that makes it.
    fn gather(&self, slug: &Slug, reader: oneshot::Sender<Answer>) -> bool {
        let mut gathering = self.gathering();
        if let Some(readers) = gathering.get_mut(slug) {
            if !readers.is_empty() {
                self.metrics.lookup_joins.inc();
            }
            readers.push(reader);
            false
        } else {
            gathering.insert(slug.clone(), vec![reader]);
            true
        }
    }

    /// Reads `slug` for those who have gathered, again and again until nobody has.
    async fn read_while_wanted(self: Arc<Self>, slug: Slug) {
        while let Some(readers) = self.take(&slug) {
            let store = Arc::clone(&self.store);
            let slug = slug.clone();
            let read = async move { give(readers, store.lookup(&slug).await) }.in_current_span();
            // When the patience ends first, the read goes on by itself and answers its readers.
            let _ = timeout(PATIENCE, tokio::spawn(read)).await;
        }
    }

    /// Who is to be answered by a read that begins now; whoever comes later waits for another. `None` when nobody
    /// waits, and then the slug is forgotten.
    fn take(&self, slug: &Slug) -> Option<Readers> {
        let mut gathering = self.gathering();
        let mut readers = std::mem::take(gathering.get_mut(slug)?);
        readers.retain(|reader| !reader.is_closed());
        if readers.is_empty() {
            gathering.remove(slug);
            return None;
        }
        Some(readers)
    }
}

/// Hands one answer to all readers. One that has gone away misses nothing.
fn give(readers: Readers, answer: Answer) {
    match answer {
        Ok(lookup) => {
            for reader in readers {
                drop(reader.send(Ok(lookup.clone())));
            }
        }
        Err(error) => {
            let (kind, cause): (fn(_) -> _, _) = match error {
                StoreError::Unavailable(cause) => (StoreError::Unavailable, cause),
                StoreError::OutcomeUnknown(cause) => (StoreError::OutcomeUnknown, cause),
                StoreError::Unreadable(cause) => (StoreError::Unreadable, cause),
            };
            let cause: Arc<dyn std::error::Error + Send + Sync> = Arc::from(cause);
            for reader in readers {
                drop(reader.send(Err(kind(Box::new(Arc::clone(&cause))))));
            }
        }
    }
}

/// A read ended without an answer: it panicked, or the runtime is shutting down.
#[derive(Debug, Error)]
#[error("the read ended without an answer")]
struct ReadBroken;
