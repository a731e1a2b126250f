//! The one thread that writes: it commits all queued operations together and answers each.
//!
//! Only this thread opens and closes the database. Readers share the database through a lock. The writer takes the lock
//! exclusively only to replace the database, never during a commit.

use std::iter;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{error, info};

use crate::ports::page_store::StoreError;

use super::error::{ClosedError, OpenError, WriterError};
use super::jobs::{Job, LedgerError, Write, answer, unavailable};
use super::ledger::Ledger;
use super::no_wait::Resizing;
use super::opening::{open_for_reading, open_for_writing};
use super::panics::caught;
use super::reserve::{Reserve, ReservedError};
use super::shared::{Committed, DbState, Shared, cause};
use super::storage::Storage;
use super::tables::{self, Applied, Outcome, Outcomes};

/// Maximum number of operations in one commit: enough that all waiting callers share one fsync, and few enough that
/// nobody waits for much more than one commit.
const BATCH_OPERATIONS: usize = 256;

/// The part of the cache at whose size a batch gets no further operation. The batch must fit in the half of the cache that may
/// hold unwritten pages, although `redb` rounds the size of each value up to a power of two. With a cache of 8 MiB it fits even
/// if its last operation is the largest possible one, of 0.8 MB.
const BATCH_OF_CACHE: usize = 8;

/// While the database is not open for writing, the writer tries to open it for writing at this interval, even if no
/// operation arrives.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The writer thread's own state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    jobs: mpsc::Receiver<Job>,
    /// A job that was taken from the queue for a batch but does not belong to it.
    next: Option<Job>,
    last_batch: u64,
    ledger: Ledger,
    reserve: Reserve,
    /// The last field, so that it is dropped last: the storage holds the lock on the data directory.
    storage: Box<dyn Storage>,
}

impl Writer {
    pub(super) fn open(storage: Box<dyn Storage>, jobs: mpsc::Receiver<Job>) -> Result<Self, OpenError> {
        let resizing = Resizing::default();
        // `redb` writes when it opens a file, and one of another version must stay as it is.
        let looked_at = open_for_reading(&*storage)?;
        // Closing a damaged database may panic.
        let _ = caught(|| drop(looked_at));
        let database = open_for_writing(&*storage, &resizing)?;
        let last_batch = caught(|| tables::last_batch(&database))
            .map_err(|panicked| OpenError::panicked(storage.location(), &panicked))?
            .map_err(|error| OpenError::database(storage.location(), error))?;
        let mut ledger = Ledger::default();
        let file = storage.ledger();
        if let Err(reason) = &file
            && reason.kind() == std::io::ErrorKind::InvalidData
        {
            return Err(OpenError::NotALedger { path: storage.location().to_owned(), reason: reason.to_string() });
        }
        caught(|| ledger.catch_up(file, &database))
            .map_err(|panicked| OpenError::panicked(storage.location(), &panicked))?
            .map_err(|error| OpenError::database(storage.location(), error))?;
        let shared = Arc::new(Shared::new(database, resizing));
        let reserve = Reserve::take(&*storage);
        Ok(Self { shared, jobs, next: None, last_batch, ledger, reserve, storage })
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Runs jobs until the writer is told to close or the store is dropped. If the writer ends for any other reason,
    /// sends that reason to `fatal`.
    ///
    /// Catches every panic: a store without its writer would refuse every request while the process looks healthy.
    pub(super) fn run(mut self, fatal: &watch::Sender<Option<Arc<WriterError>>>) {
        let ended = caught(|| self.work()).unwrap_or_else(|panicked| Err(WriterError::Panicked(panicked.to_string())));
        let Err(error) = ended else { return };
        error!(%error, "the page store ended");
        // Dropping the database may panic as well. This is harmless, because nobody uses the database any more.
        let _ = caught(|| self.shared.replace(|| DbState::Closed));
        // Once the reason is known, no further operation is queued, so each is refused.
        let _ = caught(move || drop(self));
        fatal.send_replace(Some(Arc::new(error)));
    }

    fn work(&mut self) -> Result<(), WriterError> {
        loop {
            if let DbState::Broken(reason) = &*self.shared.state()
                && reason.is_final()
            {
                return Err(WriterError::Unusable(Arc::clone(reason)));
            }
            match self.next_job() {
                Some(Job::Write(first)) => {
                    let batch = self.batch_from(first);
                    self.commit(batch);
                }
                Some(Job::Reopen { seen, done }) => {
                    if seen == self.shared.epoch() {
                        self.reopen();
                    }
                    // This fails only if the reader has reached its time limit and no longer waits.
                    let _ = done.try_send(());
                }
                Some(Job::CompleteLedger { done }) => {
                    self.complete_ledger();
                    // This fails only if the caller has given up.
                    let _ = done.send(if self.ledger.is_complete() { Ok(()) } else { Err(LedgerError) });
                }
                Some(Job::Close) => break,
                None => self.open_for_writing_again(),
            }
        }
        self.shared.replace(|| DbState::Closed);
        // Operations that were queued after the close get the answer that they were not started.
        while let Ok(job) = self.jobs.try_recv() {
            if let Job::Write(write) = job {
                answer(vec![write], unavailable(&Arc::new(ClosedError)));
            }
        }
        Ok(())
    }

    /// The next job; `None` if it is time to try again to open the database for writing.
    fn next_job(&mut self) -> Option<Job> {
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

    /// `first` and the operations queued after it, within the bounds of a batch.
    fn batch_from(&mut self, first: Write) -> Vec<Write> {
        let most_bytes = self.storage.memory().cache / BATCH_OF_CACHE;
        let mut bytes = first.bytes;
        let mut batch = vec![first];
        while batch.len() < BATCH_OPERATIONS && bytes < most_bytes {
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
        // Drops the writes whose callers have given up: whether such a write is done is left open.
        batch.retain(|write| !write.answer.is_closed());
        let batch = self.within_the_room(batch);
        if batch.is_empty() {
            return;
        }
        self.open_for_writing_again();
        if self.cannot_be_opened_for_lack_of_room() && self.gives_room(&batch) {
            self.open_for_writing_again();
        }
        let started = Instant::now();
        let number = self.last_batch + 1;
        let shared = Arc::clone(&self.shared);
        // The pages are in flux until it is known what the file holds. Each answer comes after that.
        let changing =
            shared.known.changing(batch.iter().filter_map(|write| write.operation.changed()).cloned().collect());
        let applied = match &*self.shared.state() {
            DbState::Writable(database) => {
                let operations = batch.iter().map(|write| &write.operation);
                let logged = self.ledger.logged();
                caught(|| tables::apply(database, number, operations, logged))
            }
            DbState::ReadOnly(_, reason) | DbState::Broken(reason) => {
                answer(batch, unavailable(reason));
                return;
            }
            DbState::Closed => {
                answer(batch, unavailable(&Arc::new(ClosedError)));
                return;
            }
        };
        match applied {
            Ok(Applied::Committed(outcomes, lines)) => {
                self.last_batch = number;
                drop(changing);
                self.ledger.forget_logged();
                self.ledger.add(lines);
                self.complete_ledger();
                let operations = batch.len();
                let outcomes = if self.ledger.is_complete() { outcomes } else { unconfirmed(&batch, outcomes) };
                answer(batch, outcomes);
                if let Some(observe) = self.shared.observer.get() {
                    observe(Committed { operations, took: started.elapsed() });
                }
            }
            Ok(Applied::NothingToCommit(outcomes)) => {
                drop(changing);
                answer(batch, outcomes);
            }
            Ok(Applied::Failed(error)) => {
                error!(%error, "a batch of writes failed before its commit; reopening the database");
                let has_more_room = self.gives_room_after(&error, &batch);
                self.reopen();
                drop(changing);
                if has_more_room {
                    self.commit(deletions(batch, error));
                } else {
                    answer(batch, unavailable(&Arc::new(error)));
                }
            }
            Ok(Applied::Unknown(error, outcomes)) => {
                error!(%error, "a commit failed; reopening the database to see whether it was done");
                let has_more_room = self.gives_room_after(&error, &batch);
                self.reopen();
                drop(changing);
                let was_not_done = matches!(*self.shared.state(), DbState::Writable(_)) && self.last_batch < number;
                if has_more_room && was_not_done {
                    self.commit(deletions(batch, error));
                } else {
                    self.resolve(batch, number, Some(outcomes), &Arc::new(error));
                }
            }
            Err(error) => {
                error!(%error, "a batch of writes failed; reopening the database to see whether it was committed");
                self.reopen();
                drop(changing);
                self.resolve(batch, number, None, &Arc::new(error));
            }
        }
    }

    /// If only the reserve is left, refuses the writes of `batch` that may not use it, and returns the others.
    fn within_the_room(&mut self, batch: Vec<Write>) -> Vec<Write> {
        let is_for_all = batch.iter().all(|write| write.operation.may_use_reserve());
        if is_for_all || self.reserve.allows_all_writes(&*self.storage) {
            batch
        } else {
            deletions(batch, ReservedError)
        }
    }

    /// After a write that failed with `error`: if it found no room, gives the reserve to the deletions of `batch`. Returns whether
    /// there is more room.
    fn gives_room_after(&mut self, error: &redb::Error, batch: &[Write]) -> bool {
        if !tables::is_about_room(error) {
            return false;
        }
        self.reserve.found_no_room();
        self.gives_room(batch)
    }

    /// Gives the reserve to the deletions of `batch`, if there are any. Returns whether there is more room.
    fn gives_room(&mut self, batch: &[Write]) -> bool {
        batch.iter().any(|write| write.operation.may_use_reserve()) && self.reserve.give(&*self.storage)
    }

    /// Some file systems need room for opening the database, because they never write in place.
    fn cannot_be_opened_for_lack_of_room(&self) -> bool {
        matches!(&*self.shared.state(), DbState::ReadOnly(_, reason) | DbState::Broken(reason) if reason.is_about_room())
    }

    /// Adds what the ledger lacks, if it lacks anything.
    fn complete_ledger(&mut self) {
        if self.ledger.is_unavailable() {
            self.catch_up();
        }
        self.ledger.write();
        if self.ledger.lacks_room() && self.reserve.give(&*self.storage) {
            self.complete_ledger();
        }
    }

    /// Opens the ledger again and adds what it lacks.
    fn catch_up(&mut self) {
        if let DbState::Writable(database) = &*self.shared.state() {
            match caught(|| self.ledger.catch_up(self.storage.ledger(), database)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => error!(%error, "what the ledger lacks cannot be read"),
                Err(panicked) => error!(%panicked, "what the ledger lacks cannot be read"),
            }
        }
    }

    /// Answers a batch after a failed commit. The file shows whether the commit was done.
    fn resolve<E>(&self, batch: Vec<Write>, number: u64, outcomes: Option<Outcomes>, error: &Arc<E>)
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let committed = match &*self.shared.state() {
            DbState::Writable(_) => Some(self.last_batch >= number),
            // The operating system's memory has the commit, but no fsync has succeeded since, so it may not be on disk.
            DbState::ReadOnly(..) if self.last_batch >= number => None,
            DbState::ReadOnly(..) => Some(false),
            DbState::Broken(_) | DbState::Closed => None,
        };
        match (committed, outcomes) {
            // Opening the file for writing wrote and synced its header, which is also the last step of a commit.
            (Some(true), Some(outcomes)) => answer(batch, outcomes),
            (Some(false), _) => answer(batch, unavailable(error)),
            (None, _) | (Some(true), None) => {
                answer(batch, iter::repeat_with(|| Err(StoreError::OutcomeUnknown(cause(error)))));
            }
        }
    }

    /// Drops the database, which has failed, and opens the file again. Readers wait meanwhile.
    fn reopen(&mut self) {
        let (storage, resizing) = (&*self.storage, &self.shared.resizing);
        self.shared.replace(|| {
            let database = match open_for_writing(storage, resizing) {
                Ok(database) => return DbState::Writable(database),
                Err(error) => (open_for_reading(storage), error),
            };
            match database {
                (Ok(database), error) => DbState::ReadOnly(database, Arc::new(error)),
                (Err(error), _) => DbState::Broken(Arc::new(error)),
            }
        });
        match &*self.shared.state() {
            DbState::Writable(_) => info!("the database was reopened"),
            DbState::ReadOnly(_, error) => error!(%error, "the database can be read but not written"),
            DbState::Broken(error) => error!(%error, "the database can be neither read nor written"),
            DbState::Closed => {}
        }
        self.read_last_batch();
    }

    /// If the database cannot be written, tries to open it for writing.
    fn open_for_writing_again(&mut self) {
        match &*self.shared.state() {
            DbState::ReadOnly(..) | DbState::Broken(_) => {}
            DbState::Writable(_) | DbState::Closed => return,
        }
        // A database opened for reading holds no lock on the file, so readers can use that database while the file is
        // opened for writing.
        if let Ok(database) = open_for_writing(&*self.storage, &self.shared.resizing) {
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
        // Only the file shows which deletions the failed commit made.
        self.catch_up();
        match last {
            Ok(last) => self.last_batch = last,
            Err(error) => {
                let error = Arc::new(OpenError::database(self.storage.location(), error));
                self.shared.replace(|| DbState::Broken(error));
            }
        }
    }
}

/// The outcomes of a batch that is committed and not in the ledger. An owner is not told that a page is gone for good as long as a
/// restore would bring it back; operators ask for that themselves.
fn unconfirmed(batch: &[Write], outcomes: Outcomes) -> Outcomes {
    let confirmed = |(write, outcome): (&Write, Result<Outcome, StoreError>)| match outcome {
        Ok(Outcome::Done) if write.operation.is_by_owner() => Err(StoreError::OutcomeUnknown(Box::new(LedgerError))),
        outcome => outcome,
    };
    batch.iter().zip(outcomes).map(confirmed).collect()
}

/// The writes of `batch` that may use the reserve: deletions. The others are refused with `error`.
fn deletions<E>(batch: Vec<Write>, error: E) -> Vec<Write>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let (deletions, others) = batch.into_iter().partition(|write: &Write| write.operation.may_use_reserve());
    answer(others, unavailable(&Arc::new(error)));
    deletions
}
