//! [`PageStore`] with a writer thread and read transactions.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use redb::{Database, ReadableDatabase};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task;
use tokio::time::{self, Instant};

use crate::domain::page::{Page, PageHead, PageState, PageText, PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::slug_secret::SlugSecret;
use crate::domain::takedown::Visibility;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_import::PageImport;
use crate::ports::page_store::{Access, CasResult, InsertResult, Lookup, PageStore, ReadsNow, Record, StoreError};

use super::data_dir::DataDir;
use super::error::{ClosedError, OpenError, WriterError};
use super::expected::Expected;
use super::jobs::{Job, LedgerError, Write};
use super::no_wait::Tries;
use super::reading::{Found, Query, QueryResult, on_database, read, read_now};
use super::shared::{Committed, Shared, cause};
use super::slug_secret;
use super::storage::{Memory, Storage, StoreMemory};
use super::tables::{self, Operation, Outcome};
use super::visibility;
use super::writer::Writer;
use handbill_core::niceness::give_way;

/// Bytes of the queue that even the smallest write takes: one page of the file.
const WRITE_BYTES: usize = 4096;

/// How long a call waits for its share of the queue, or for permission to read.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of lookups that run at the same time, each on a thread of its own. Each may hold 1.5 MB of the file and of
/// a page before anything counts it.
const READS_AT_ONCE: usize = 16;

/// The pages of one data directory, which no other process may use while the store is open.
///
/// A call waits at most 2 s for its permit and then fails with [`StoreError::Unavailable`]. After that a write waits
/// for its commit, however long the disk takes. A caller that gives up earlier drops the future. If the write has
/// started by then, it is done completely; otherwise it is not done.
///
/// Dropping the store commits the queued writes and closes the file, on the thread that drops it. [`RedbStore::close`]
/// does the same without blocking a runtime.
pub struct RedbStore {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    queue: Arc<Semaphore>,
    queue_bytes: usize,
    reads: Arc<Semaphore>,
    tries: Tries,
    writer: Mutex<Option<JoinHandle<()>>>,
    fatal: watch::Receiver<Option<Arc<WriterError>>>,
}

#[derive(Debug, Error)]
#[error("too many calls wait for the store")]
struct Overloaded;

impl RedbStore {
    /// Opens the store in `data_dir`, and recovers it after a crash. Creates the directory and the store if they are
    /// missing.
    pub fn open(data_dir: &Path) -> Result<Self, OpenError> {
        Self::open_within(StoreMemory::OF_COMMANDS, data_dir)
    }

    /// Does the same as [`RedbStore::open`] within `memory`.
    pub fn open_within(memory: StoreMemory, data_dir: &Path) -> Result<Self, OpenError> {
        Self::on(Box::new(DataDir::prepare(data_dir, memory)?))
    }

    /// A store in memory. It is lost when it is dropped.
    pub fn in_memory() -> Result<Self, OpenError> {
        Self::on(Box::new(Memory::default()))
    }

    pub fn on(storage: Box<dyn Storage>) -> Result<Self, OpenError> {
        let (jobs, queued) = mpsc::channel();
        let (location, queue_bytes) = (storage.location().to_owned(), storage.memory().queue);
        let writer = Writer::open(storage, queued)?;
        let shared = writer.shared();
        let (report_fatal, fatal) = watch::channel(None);
        let thread = thread::Builder::new().name("handbill-writer".to_owned()).spawn(move || {
            give_way();
            writer.run(&report_fatal);
        });
        Ok(Self {
            shared,
            jobs,
            queue: Arc::new(Semaphore::new(queue_bytes)),
            queue_bytes,
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
            tries: Tries::default(),
            writer: Mutex::new(Some(thread.map_err(|reason| OpenError::io(&location, reason))?)),
            fatal,
        })
    }

    /// Returns the reason once the store has ended although nobody closed it. The process should then end, so that its
    /// supervisor starts it again. While the store works, and after it was closed, this never returns.
    pub async fn fatal_error(&self) -> Arc<WriterError> {
        let mut fatal = self.fatal.clone();
        // An error means that the writer ended because it was told to.
        if let Ok(Some(error)) = fatal.wait_for(Option::is_some).await.as_deref() {
            return Arc::clone(error);
        }
        std::future::pending().await
    }

    /// Calls `observe` after each commit, on the writer thread, which waits for it. Only the first call sets an
    /// observer.
    pub fn observe_commits(&self, observe: impl Fn(Committed) + Send + Sync + 'static) {
        let _ = self.shared.observer.set(Box::new(observe));
    }

    /// Commits the queued writes and closes the file. Later calls fail with [`StoreError::Unavailable`].
    pub async fn close(&self) {
        if let Some(writer) = self.end_writer() {
            // The writer catches its own panics.
            let _ = task::spawn_blocking(move || writer.join()).await;
        }
    }

    fn end_writer(&self) -> Option<JoinHandle<()>> {
        let writer = self.writer.lock().take()?;
        // Sending fails only if the writer has already ended.
        let _ = self.jobs.send(Job::Close);
        Some(writer)
    }

    /// Runs `read` on a thread that may block, as one of the lookups that may run at the same time.
    pub(super) async fn read_blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = permit(&self.reads, 1).await?;
        let shared = Arc::clone(&self.shared);
        let reading = task::spawn_blocking(move || (read(&shared), permit));
        reading.await.map_or_else(|panicked| Err(StoreError::Unavailable(panicked.into())), |(found, _permit)| found)
    }

    pub(super) async fn write(&self, operation: Operation) -> Result<Outcome, StoreError> {
        // Even the largest possible page fits in an empty queue.
        let bytes = queued_bytes(&operation).min(self.queue_bytes);
        let permit = permit(&self.queue, bytes).await?;
        let (answer, answered) = oneshot::channel();
        let closed = || StoreError::Unavailable(cause(&Arc::new(ClosedError)));
        self.jobs.send(Job::Write(Write { operation, bytes, answer, permit })).map_err(|_| closed())?;
        // If there is no answer, the writer has failed, perhaps in the middle of this write.
        answered.await.unwrap_or_else(|_| Err(StoreError::OutcomeUnknown(cause(&Arc::new(ClosedError)))))
    }

    async fn swap(&self, expected: Expected, next: Record) -> Result<CasResult, StoreError> {
        Ok(match self.write(Operation::CompareAndSet { expected, next }).await? {
            Outcome::Done => CasResult::Swapped,
            Outcome::Refused => CasResult::Stale,
        })
    }

    /// Adds what the ledger lacks.
    pub(super) async fn complete_ledger(&self) -> Result<(), StoreError> {
        let (done, completed) = oneshot::channel();
        let closed = || StoreError::Unavailable(cause(&Arc::new(ClosedError)));
        self.jobs.send(Job::CompleteLedger { done }).map_err(|_| closed())?;
        let completed: Result<(), LedgerError> = completed.await.map_err(|_| closed())?;
        completed.map_err(|error| StoreError::Unavailable(error.into()))
    }

    /// The result of `query`, if it is worthwhile to try it and it need not wait.
    fn now<T: Found>(&self, slug: &Slug, query: impl FnOnce(&Database, &Slug) -> QueryResult<T>) -> Option<T> {
        // While many lookups wait for the disk, a page in memory must not wait behind them.
        if !self.tries.are_worthwhile() && self.reads.available_permits() > READS_AT_ONCE / 2 {
            return None;
        }
        let found = read_now(&self.shared, slug, query);
        self.tries.ended(found.is_some());
        found
    }

    /// Runs `query` on a thread that may block.
    async fn read<T: Found + Send + 'static>(&self, slug: &Slug, query: Query<T>) -> Result<T, StoreError> {
        let permit = permit(&self.reads, 1).await?;
        let (shared, jobs, slug) = (Arc::clone(&self.shared), self.jobs.clone(), slug.clone());
        // The thread returns the permit together with the answer, and the caller frees the permit when it takes the
        // answer. So no more answers wait than lookups may run at the same time. If the caller has given up, the answer
        // and the permit are dropped when the thread has finished.
        let read = task::spawn_blocking(move || (read(&shared, &jobs, &slug, query), permit));
        read.await.map_or_else(|panicked| Err(StoreError::Unavailable(panicked.into())), |(found, _permit)| found)
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        if let Some(writer) = self.end_writer() {
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl PageStore for RedbStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        let secret = self.read_blocking(|shared| on_database(shared, slug_secret::read)).await?;
        secret.ok_or_else(|| StoreError::Unreadable("the secret for slugs is missing".into()))
    }

    async fn insert_if_absent(&self, page: Arc<Page>, _: Option<Instant>) -> Result<InsertResult, StoreError> {
        let slug = page.head.slug.clone();
        match self.write(Operation::Insert(page)).await? {
            Outcome::Done => Ok(InsertResult::Inserted),
            Outcome::Refused => InsertResult::refused(self.lookup(&slug).await?),
        }
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.read(slug, tables::lookup).await
    }

    fn access(&self) -> Access<'_> {
        Access::AtOnce(self)
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        if let Some(head) = self.now(slug, tables::head) {
            return Ok(head);
        }
        self.read(slug, tables::head).await
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        let page = self.read(&head.slug, tables::page).await?;
        Ok(page.filter(|page| page.head.state() == head.state()))
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        _: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        self.swap(Expected::Version(expected), next).await
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        self.swap(Expected::Unreadable, Record::Deleted(tombstone)).await
    }

    async fn ensure_in_ledger(&self, _: &Record) -> Result<(), StoreError> {
        self.complete_ledger().await
    }
}

impl ReadsNow for RedbStore {
    fn lookup_now(&self, slug: &Slug, max_bytes: usize) -> Option<Lookup> {
        self.now(slug, |database, slug| tables::lookup_up_to(max_bytes, database, slug))?
    }

    fn known_state(&self, slug: &Slug) -> Option<PageState> {
        self.shared.known.get(slug)
    }
}

#[async_trait]
impl PageImport for RedbStore {
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone, _now: UnixMillis) -> Result<bool, StoreError> {
        Ok(self.write(Operation::InsertTombstone(tombstone)).await? == Outcome::Done)
    }

    async fn replace(&self, expected: PageState, next: Record, _now: UnixMillis) -> Result<CasResult, StoreError> {
        self.swap(Expected::State(expected), next).await
    }

    async fn visibility(&self, slug: &Slug) -> Result<Option<Visibility>, StoreError> {
        let slug = slug.clone();
        let noted = move |database: &Database| visibility::of(&database.begin_read()?, slug.as_str());
        self.read_blocking(move |shared| on_database(shared, noted)).await
    }

    async fn keep_visibility(&self, visibility: Visibility) -> Result<bool, StoreError> {
        let is_new = self.write(Operation::KeepVisibility(visibility)).await? == Outcome::Done;
        self.complete_ledger().await?;
        Ok(is_new)
    }
}

async fn permit(semaphore: &Arc<Semaphore>, permits: usize) -> Result<OwnedSemaphorePermit, StoreError> {
    let permits = u32::try_from(permits).unwrap_or(u32::MAX);
    match time::timeout(PERMIT_TIMEOUT, Arc::clone(semaphore).acquire_many_owned(permits)).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(closed)) => Err(StoreError::Unavailable(closed.into())),
        Err(_) => Err(StoreError::Unavailable(Box::new(Overloaded))),
    }
}

fn queued_bytes(operation: &Operation) -> usize {
    let content = match operation {
        Operation::Insert(page) | Operation::CompareAndSet { next: Record::Active(page), .. } => {
            let PageText { content, html, code_blocks, .. } = &page.text;
            content.as_str().len() + html.len() + size_of_val(&code_blocks[..])
        }
        Operation::CompareAndSet { next: Record::Deleted(_), .. }
        | Operation::InsertTombstone(_)
        | Operation::KeepVisibility(_)
        | Operation::Pause(_) => 0,
    };
    WRITE_BYTES + content
}
