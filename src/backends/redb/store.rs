//! [`PageStore`] over the writer thread and read transactions.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task;
use tokio::time;

use crate::domain::page::{Page, PageVersion};
use crate::domain::slug::Slug;
use crate::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};

use super::data_dir::{DataDirectory, OpenError};
use super::panics::{Panicked, caught};
use super::storage::{Memory, Storage};
use super::tables::{self, Operation, Outcome};
use super::writer::{Closed, Committed, DbState, Job, Shared, Write, Writer, WriterError, cause};

/// Room for writes that wait or are being committed, in bytes: eight full batches.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// What the smallest write counts in the queue, in bytes: a page of the file. It also bounds the number of writes that
/// wait, to 16384.
const WRITE_BYTES: usize = 4096;

/// How long a call waits for room in the queue, or for its turn to read.
const TURN_LIMIT: Duration = Duration::from_secs(2);

/// Lookups that run at once, each on a thread of its own: more than a disk serves at a time, and few enough to
/// leave threads for other blocking work.
const READS_AT_ONCE: usize = 64;

/// How long a lookup that met a failed disk waits for the writer to open the file anew.
const REOPEN_LIMIT: Duration = Duration::from_secs(5);

/// The pages of one data directory, which no other process may use meanwhile.
///
/// A call waits for at most 2 s for its turn and is then [`StoreError::Unavailable`]; a write whose turn has come waits
/// for its commit, however long the disk takes. A caller that gives up earlier drops the future: a write that was not
/// yet begun is then not done, one that was begun is done as a whole.
///
/// Dropping the store finishes what is queued and closes the file, on the thread that drops it;
/// [`RedbStore::close`] does so without holding up a runtime.
pub struct RedbStore {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    queue: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    writer: Mutex<Option<JoinHandle<()>>>,
    failed: watch::Receiver<Option<Arc<WriterError>>>,
}

/// No turn came in time.
#[derive(Debug, Error)]
#[error("too many calls wait for the store")]
struct Busy;

impl RedbStore {
    /// Opens the store in `data_dir`, making both where they are missing. What a crash left is recovered.
    pub fn open(data_dir: &Path) -> Result<Self, OpenError> {
        Self::on(Box::new(DataDirectory::prepare(data_dir)?))
    }

    /// A store in memory, gone when it is dropped.
    pub fn in_memory() -> Result<Self, OpenError> {
        Self::on(Box::new(Memory::default()))
    }

    /// A store on `medium`, which may hold one already.
    pub fn on(medium: Box<dyn Storage>) -> Result<Self, OpenError> {
        let (jobs, queued) = mpsc::channel();
        let place = medium.place().to_owned();
        let writer = Writer::open(medium, queued)?;
        let shared = writer.shared();
        let (fail, failed) = watch::channel(None);
        let thread = thread::Builder::new().name("handbill-writer".to_owned()).spawn(move || writer.run(&fail));
        Ok(Self {
            shared,
            jobs,
            queue: Arc::new(Semaphore::new(QUEUE_BYTES)),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
            writer: Mutex::new(Some(thread.map_err(|reason| OpenError::io(&place, reason))?)),
            failed,
        })
    }

    /// Returns once the store does nothing more though nobody closed it, and why: its process should end, so that its
    /// supervisor starts it again. Of a store that works or was closed it never returns.
    pub async fn failed(&self) -> Arc<WriterError> {
        let mut failed = self.failed.clone();
        // An error means that the writer ended as it was told to.
        if let Ok(Some(error)) = failed.wait_for(Option::is_some).await.as_deref() {
            return Arc::clone(error);
        }
        std::future::pending().await
    }

    /// Calls `observe` after each commit, on the writer thread, which waits for it. Only the first observer counts.
    pub fn observe_commits(&self, observe: impl Fn(Committed) + Send + Sync + 'static) {
        let _ = self.shared.observer.set(Box::new(observe));
    }

    /// Finishes what is queued and closes the file. Calls made later are [`StoreError::Unavailable`].
    pub async fn close(&self) {
        if let Some(writer) = self.end_writer() {
            // The writer catches its own panics.
            let _ = task::spawn_blocking(move || writer.join()).await;
        }
    }

    fn end_writer(&self) -> Option<JoinHandle<()>> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // It fails only where the writer has ended by itself.
        let _ = self.jobs.send(Job::Close);
        Some(writer)
    }

    async fn write(&self, operation: Operation) -> Result<Outcome, StoreError> {
        let bytes = queued_bytes(&operation);
        let room = turn(&self.queue, bytes).await?;
        let (answer, answered) = oneshot::channel();
        let closed = || StoreError::Unavailable(cause(&Arc::new(Closed)));
        self.jobs.send(Job::Write(Write { operation, bytes, answer, room })).map_err(|_| closed())?;
        // Without an answer the writer ended by itself, perhaps in the middle of this very write.
        answered.await.unwrap_or_else(|_| Err(StoreError::OutcomeUnknown(cause(&Arc::new(Closed)))))
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
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<InsertResult, StoreError> {
        Ok(match self.write(Operation::Insert(page)).await? {
            Outcome::Done => InsertResult::Inserted,
            Outcome::Refused => InsertResult::SlugTaken,
        })
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let turn = turn(&self.reads, 1).await?;
        let (shared, jobs, slug) = (Arc::clone(&self.shared), self.jobs.clone(), slug.clone());
        // Given back when the caller has its answer, so that no more answers wait to be taken than may be read at once. One
        // whose caller went away is dropped when its thread is free.
        let read = task::spawn_blocking(move || (read(&shared, &jobs, &slug), turn));
        read.await.map_or_else(|panicked| Err(StoreError::Unavailable(panicked.into())), |(found, _turn)| found)
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<CasResult, StoreError> {
        Ok(match self.write(Operation::CompareAndSet { expected, next }).await? {
            Outcome::Done => CasResult::Swapped,
            Outcome::Refused => CasResult::Stale,
        })
    }
}

async fn turn(semaphore: &Arc<Semaphore>, permits: usize) -> Result<OwnedSemaphorePermit, StoreError> {
    let permits = u32::try_from(permits).unwrap_or(u32::MAX);
    match time::timeout(TURN_LIMIT, Arc::clone(semaphore).acquire_many_owned(permits)).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(closed)) => Err(StoreError::Unavailable(closed.into())),
        Err(_) => Err(StoreError::Unavailable(Box::new(Busy))),
    }
}

fn queued_bytes(operation: &Operation) -> usize {
    let content = match operation {
        Operation::Insert(page) | Operation::CompareAndSet { next: Record::Active(page), .. } => {
            page.content.as_str().len() + page.rendered.html.len()
        }
        Operation::CompareAndSet { next: Record::Deleted(_), .. } => 0,
    };
    // The largest page there can be has room, whatever waits beside it.
    (WRITE_BYTES + content).min(QUEUE_BYTES)
}

/// A lookup, on a thread that may block. One that meets a failed disk tries once more on the file opened anew.
fn read(shared: &Shared, jobs: &mpsc::Sender<Job>, slug: &Slug) -> Result<Lookup, StoreError> {
    let seen = shared.epoch();
    let error = match read_once(shared, slug) {
        Err(error) if error.may_pass(shared) => error,
        answer => return answer.map_err(StoreError::from),
    };
    let (done, reopened) = mpsc::sync_channel(1);
    let asked = jobs.send(Job::Reopen { seen, done });
    if asked.is_err() || reopened.recv_timeout(REOPEN_LIMIT).is_err() {
        return Err(error.into());
    }
    Ok(read_once(shared, slug)?)
}

fn read_once(shared: &Shared, slug: &Slug) -> Result<Lookup, ReadError> {
    let found = match &*shared.state() {
        DbState::Writable(database) | DbState::ReadOnly(database, _) => caught(|| tables::lookup(database, slug)),
        DbState::Broken(reason) => return Err(ReadError::Store(StoreError::Unavailable(cause(reason)))),
        DbState::Closed => return Err(ReadError::Store(StoreError::Unavailable(cause(&Arc::new(Closed))))),
    };
    found.map_err(ReadError::Panicked)?.map_err(ReadError::Database)?.map_err(ReadError::Store)
}

/// Why a lookup has no answer.
#[derive(Debug)]
enum ReadError {
    /// The store itself says so.
    Store(StoreError),
    /// The database says so.
    Database(redb::Error),
    /// The database met damage that it did not expect.
    Panicked(Panicked),
}

impl ReadError {
    /// Whether the same lookup may succeed once the file was opened anew.
    fn may_pass(&self, shared: &Shared) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Database(error) => tables::is_about_the_disk(error),
            // Damage stays where it is. Only where the panic left the database's own locks unusable is a new one needed.
            Self::Panicked(_) => match &*shared.state() {
                DbState::Writable(database) | DbState::ReadOnly(database, _) => {
                    !matches!(caught(|| tables::last_batch(database)), Ok(Ok(_)))
                }
                DbState::Broken(_) | DbState::Closed => false,
            },
        }
    }
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store(error) => error,
            ReadError::Database(error) if tables::is_damage(&error) => Self::Unreadable(error.into()),
            ReadError::Database(error) => Self::Unavailable(error.into()),
            ReadError::Panicked(panicked) => Self::Unreadable(panicked.into()),
        }
    }
}
