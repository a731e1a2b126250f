//! The one thread that writes: takes what is queued, commits it as one, answers each.
//!
//! It alone opens and closes the database. Readers share it through a lock that the writer takes for itself only to
//! exchange one database for another, never while it commits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use redb::Database;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tracing::{error, info};

use crate::ports::page_store::{Cause, StoreError};

use super::data_dir::OpenError;
use super::overlay::Overlay;
use super::panics::caught;
use super::storage::Storage;
use super::tables::{self, Applied, Operation, Outcome, Outcomes};

/// Most operations in one commit: enough that one fsync is shared by all who wait, few enough that nobody waits for
/// much more than one commit.
const BATCH_OPERATIONS: usize = 256;

/// A batch takes no further operation from this size on, in bytes. With one more of the largest, and with each value
/// rounded up to a power of two as `redb` does, it stays within the half of the cache that may hold unwritten pages.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// How long the writer rests between attempts to open for writing what could only be opened for reading, when nobody
/// asks for a write meanwhile.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// What the writer is asked.
pub(super) enum Job {
    /// To commit an operation.
    Write(Write),
    /// To open the database anew, unless that was done since the epoch that the reader saw.
    Reopen { seen: u64, done: mpsc::SyncSender<()> },
    /// To end, after all that was asked before.
    Close,
}

/// An operation and who waits for it.
pub(super) struct Write {
    pub(super) operation: Operation,
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Result<Outcome, StoreError>>,
    /// Room in the queue, given back when this is dropped.
    pub(super) room: OwnedSemaphorePermit,
}

/// Why a store does nothing more in this process, though nobody closed it. What it acknowledged is on disk.
#[derive(Debug, Error)]
pub enum WriterError {
    /// The writer thread panicked.
    #[error("the writer of the page store failed ({0}): what was acknowledged is on disk, start Handbill again")]
    Panicked(String),
    /// The database was opened again after a failure, and that is impossible.
    #[error("the page store cannot be opened again: {0}")]
    Unusable(Arc<OpenError>),
}

/// One commit, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// How many operations shared it.
    pub operations: usize,
    /// How long it took, from the first operation applied to the last byte on disk.
    pub took: Duration,
}

/// The database as readers find it.
pub(super) struct Shared {
    state: RwLock<DbState>,
    /// Counts how often the slot's database was exchanged.
    epoch: AtomicU64,
    pub(super) observer: OnceLock<Box<dyn Fn(Committed) + Send + Sync>>,
}

/// What there is to work with.
pub(super) enum DbState {
    /// For reading and writing.
    Writable(Database),
    /// For reading: the disk refuses writes, for this reason.
    ReadOnly(Database, Arc<OpenError>),
    /// Nothing: the disk refuses reads too, for this reason.
    Broken(Arc<OpenError>),
    /// The store was closed.
    Closed,
}

impl Shared {
    pub(super) fn state(&self) -> RwLockReadGuard<'_, DbState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn replace(&self, open: impl FnOnce() -> DbState) {
        let mut slot = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // The old one holds the file's lock, so it must be gone before the new one is opened.
        *slot = DbState::Closed;
        *slot = open();
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// The writer thread's own state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    jobs: mpsc::Receiver<Job>,
    /// A job that was taken from the queue while a batch was gathered, and does not belong to it.
    next: Option<Job>,
    last_batch: u64,
    /// Dropped last: with it goes the lock on the data directory.
    medium: Box<dyn Storage>,
}

impl Writer {
    /// Opens the database on `medium`.
    pub(super) fn open(medium: Box<dyn Storage>, jobs: mpsc::Receiver<Job>) -> Result<Self, OpenError> {
        let database = open_for_writing(&*medium)?;
        let last_batch = caught(|| tables::last_batch(&database))
            .map_err(|panicked| OpenError::panicked(medium.place(), &panicked))?
            .map_err(|error| OpenError::database(medium.place(), error))?;
        let shared = Arc::new(Shared {
            state: RwLock::new(DbState::Writable(database)),
            epoch: AtomicU64::new(0),
            observer: OnceLock::new(),
        });
        Ok(Self { shared, jobs, next: None, last_batch, medium })
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Works until it is told to close or nobody is left to tell it. What ends it otherwise is told to `failed`.
    ///
    /// No panic gets past this: a store without its writer would refuse every request while its process looks well.
    pub(super) fn run(mut self, failed: &watch::Sender<Option<Arc<WriterError>>>) {
        let ended = caught(|| self.work()).unwrap_or_else(|panicked| Err(WriterError::Panicked(panicked.to_string())));
        let Err(error) = ended else { return };
        error!(%error, "the page store ended");
        // Giving up the database may panic as well, and it is not used any more either way.
        let _ = caught(|| self.shared.replace(|| DbState::Closed));
        failed.send_replace(Some(Arc::new(error)));
    }

    fn work(&mut self) -> Result<(), WriterError> {
        loop {
            if let DbState::Broken(reason) = &*self.shared.state()
                && reason.is_final()
            {
                return Err(WriterError::Unusable(Arc::clone(reason)));
            }
            match self.take() {
                Some(Job::Write(first)) => {
                    let batch = self.gather(first);
                    self.commit(batch);
                }
                Some(Job::Reopen { seen, done }) => {
                    if seen == self.shared.epoch() {
                        self.reopen();
                    }
                    // A reader that no longer waits has seen its time limit.
                    let _ = done.try_send(());
                }
                Some(Job::Close) => break,
                None => self.open_for_writing_again(),
            }
        }
        self.shared.replace(|| DbState::Closed);
        // Whatever was asked after the close was not begun, and says so.
        while let Ok(job) = self.jobs.try_recv() {
            if let Job::Write(write) = job {
                answer(vec![write], unavailable(&Arc::new(Closed)));
            }
        }
        Ok(())
    }

    /// The next job; `None` when it is time to try again to open for writing.
    fn take(&mut self) -> Option<Job> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        if matches!(*self.shared.state(), DbState::Writable(_)) {
            return Some(self.jobs.recv().unwrap_or(Job::Close));
        }
        match self.jobs.recv_timeout(RETRY_EVERY) {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Job::Close),
        }
    }

    /// All that is queued behind `first`, within the bounds of a batch.
    fn gather(&mut self, first: Write) -> Vec<Write> {
        let mut bytes = first.bytes;
        let mut batch = vec![first];
        while batch.len() < BATCH_OPERATIONS && bytes < BATCH_BYTES {
            match self.jobs.try_recv() {
                Ok(Job::Write(write)) => {
                    bytes += write.bytes;
                    batch.push(write);
                }
                Ok(other) => {
                    self.next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        batch
    }

    fn commit(&mut self, mut batch: Vec<Write>) {
        // Nobody waits for these any more. Not doing them is one of the two things that may become of them.
        batch.retain(|write| !write.answer.is_closed());
        if batch.is_empty() {
            return;
        }
        self.open_for_writing_again();
        let started = Instant::now();
        let number = self.last_batch + 1;
        let applied = match &*self.shared.state() {
            DbState::Writable(database) => {
                let operations = batch.iter().map(|write| &write.operation);
                caught(|| tables::apply(database, number, operations))
            }
            DbState::ReadOnly(_, reason) | DbState::Broken(reason) => {
                answer(batch, unavailable(reason));
                return;
            }
            DbState::Closed => {
                answer(batch, unavailable(&Arc::new(Closed)));
                return;
            }
        };
        match applied {
            Ok(Applied::Committed(outcomes)) => {
                self.last_batch = number;
                let operations = batch.len();
                answer(batch, outcomes);
                if let Some(observe) = self.shared.observer.get() {
                    observe(Committed { operations, took: started.elapsed() });
                }
            }
            Ok(Applied::NothingToCommit(outcomes)) => answer(batch, outcomes),
            Ok(Applied::Failed(error)) => {
                error!(%error, "a batch of writes failed before its commit; the database is opened anew");
                self.reopen();
                answer(batch, unavailable(&Arc::new(error)));
            }
            Ok(Applied::Unknown(error, outcomes)) => {
                error!(%error, "a commit failed; the database is opened anew to see whether it was made");
                self.reopen();
                self.resolve(batch, number, Some(outcomes), &Arc::new(error));
            }
            Err(error) => {
                error!(%error, "a batch of writes failed; the database is opened anew to see whether it was made");
                self.reopen();
                self.resolve(batch, number, None, &Arc::new(error));
            }
        }
    }

    /// Answers a batch whose commit failed by what the file holds.
    fn resolve<E>(&self, batch: Vec<Write>, number: u64, outcomes: Option<Outcomes>, error: &Arc<E>)
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let made = match &*self.shared.state() {
            DbState::Writable(_) => Some(self.last_batch >= number),
            // Seen through the operating system's memory, but not known to be on disk: no fsync has succeeded since.
            DbState::ReadOnly(..) if self.last_batch >= number => None,
            DbState::ReadOnly(..) => Some(false),
            DbState::Broken(_) | DbState::Closed => None,
        };
        match (made, outcomes) {
            // Opening for writing has written and synced the header, which is all that a commit does last.
            (Some(true), Some(outcomes)) => answer(batch, outcomes),
            (Some(false), _) => answer(batch, unavailable(error)),
            (None, _) | (Some(true), None) => {
                answer(batch, std::iter::repeat_with(|| Err(StoreError::OutcomeUnknown(cause(error)))));
            }
        }
    }

    /// Exchanges the database for one that has no failure behind it; readers wait meanwhile.
    fn reopen(&mut self) {
        let medium = &*self.medium;
        self.shared.replace(|| {
            let database = match open_for_writing(medium) {
                Ok(database) => return DbState::Writable(database),
                Err(error) => (open_for_reading(medium), error),
            };
            match database {
                (Ok(database), error) => DbState::ReadOnly(database, Arc::new(error)),
                (Err(error), _) => DbState::Broken(Arc::new(error)),
            }
        });
        match &*self.shared.state() {
            DbState::Writable(_) => info!("the database was opened anew"),
            DbState::ReadOnly(_, error) => error!(%error, "the database can be read but not written"),
            DbState::Broken(error) => error!(%error, "the database can be neither read nor written"),
            DbState::Closed => {}
        }
        self.read_last_batch();
    }

    /// Where the database cannot be written, opens it for writing if that is possible by now.
    fn open_for_writing_again(&mut self) {
        match &*self.shared.state() {
            DbState::ReadOnly(..) | DbState::Broken(_) => {}
            DbState::Writable(_) | DbState::Closed => return,
        }
        // What there is for reading holds no lock on the file, so that readers keep it meanwhile.
        if let Ok(database) = open_for_writing(&*self.medium) {
            self.shared.replace(|| DbState::Writable(database));
            info!("the database can be written again");
            self.read_last_batch();
        }
    }

    fn read_last_batch(&mut self) {
        let last = match &*self.shared.state() {
            DbState::Writable(database) | DbState::ReadOnly(database, _) => tables::last_batch(database),
            DbState::Broken(_) | DbState::Closed => return,
        };
        match last {
            Ok(last) => self.last_batch = last,
            Err(error) => {
                let error = Arc::new(OpenError::database(self.medium.place(), error));
                self.shared.replace(|| DbState::Broken(error));
            }
        }
    }
}

fn open_for_writing(medium: &dyn Storage) -> Result<Database, OpenError> {
    let backend = medium.read_write().map_err(|reason| OpenError::io(medium.place(), reason))?;
    tables::open(medium.place(), backend)
}

fn open_for_reading(medium: &dyn Storage) -> Result<Database, OpenError> {
    let view = medium.read_only().and_then(Overlay::of).map_err(|reason| OpenError::io(medium.place(), reason))?;
    tables::open(medium.place(), Box::new(view))
}

fn answer(batch: Vec<Write>, outcomes: impl IntoIterator<Item = Result<Outcome, StoreError>>) {
    for (Write { answer, room, .. }, outcome) in batch.into_iter().zip(outcomes) {
        drop(room);
        // A caller that went away hears nothing.
        let _ = answer.send(outcome);
    }
}

fn unavailable<E>(error: &Arc<E>) -> impl Iterator<Item = Result<Outcome, StoreError>>
where
    E: std::error::Error + Send + Sync + 'static,
{
    std::iter::repeat_with(|| Err(StoreError::Unavailable(cause(error))))
}

/// One failure as the cause of many errors.
pub(super) fn cause<E>(error: &Arc<E>) -> Cause
where
    E: std::error::Error + Send + Sync + 'static,
{
    Box::new(Arc::clone(error))
}

/// The store was closed before the operation began.
#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
pub(super) struct Closed;
