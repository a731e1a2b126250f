//! The one thread that writes. It takes the operations that wait, at most 256, applies them in one transaction in which each sees
//! the effects of those before it, commits once, and only then answers each caller. Operations that arrive during the commit form
//! the next batch, so under load many callers share one sync, and without load nobody waits. An operation is one
//! statement that writes, so an error of SQLite ends its whole batch and no operation is done in part.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use handbill_core::domain::journal::{Act, Line};
use handbill_core::ports::page_store::{Cause, StoreError};
use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::{error, info, warn};

use super::change::{Operation, Outcome, replay, state};
use super::database::{APPLIED, BATCH, BUSY_TIMEOUT, Opening, ReadError, json_setting, set, set_json, setting};
use super::error::Closed;
use super::journal::{Journal, Place, void};
use super::marks::Marks;

/// Maximum number of operations in one commit.
const BATCH_OPERATIONS: usize = 256;

/// How often the writer tries to open a database again that it could not open.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// When text that was deleted or replaced leaves the files: then the log is applied to the database and emptied.
const CLEAN_AFTER: Duration = Duration::from_mins(1);

/// When that is tried again if another program reads the log.
const CLEAN_AGAIN: Duration = Duration::from_secs(10);

/// Lines of the journal that are applied in one transaction.
const LINES_AT_ONCE: u64 = 1000;

/// What the writer and its callers share.
pub(super) struct Shared {
    pub(super) opening: Opening,
    pub(super) marks: Marks,
    /// Whether the store is open. Readers hold this lock, so the writer knows when no connection is used.
    is_open: RwLock<bool>,
    /// Connections that nobody uses.
    readers: Mutex<Vec<Connection>>,
}

impl Shared {
    pub(super) fn new(opening: Opening) -> Self {
        Self { opening, marks: Marks::default(), is_open: RwLock::new(true), readers: Mutex::default() }
    }

    /// The result of `read`, which is called again with a new connection if one that was used before fails.
    pub(super) fn read<T>(&self, read: impl Fn(&Connection) -> Result<T, ReadError>) -> Result<T, StoreError> {
        let is_open = self.is_open.read();
        if !*is_open {
            return Err(StoreError::Unavailable(Closed.into()));
        }
        let kept = self.readers.lock().pop();
        let mut is_new = kept.is_none();
        let mut database = kept.map_or_else(|| self.opening.for_reading(), Ok).map_err(ReadError::from)?;
        loop {
            match read(&database) {
                Err(error @ ReadError::Database(_)) if is_new => return Err(error.into()),
                Err(ReadError::Database(_)) => {
                    (database, is_new) = (self.opening.for_reading().map_err(ReadError::from)?, true);
                }
                found => {
                    self.readers.lock().push(database);
                    return Ok(found?);
                }
            }
        }
    }
}

/// An operation, and the channel to its caller.
pub(super) struct Write {
    pub(super) operation: Operation,
    pub(super) answer: oneshot::Sender<Result<Outcome, StoreError>>,
    /// The operation's share of the queue.
    pub(super) permit: OwnedSemaphorePermit,
}

pub(super) enum Job {
    Write(Box<Write>),
    /// End the thread, after all earlier requests.
    Close,
}

/// Why a batch was not done, or may not have been.
struct Failure {
    reason: Arc<dyn std::error::Error + Send + Sync>,
    /// Whether nothing was changed.
    is_certain: bool,
}

impl Failure {
    fn new(reason: impl std::error::Error + Send + Sync + 'static, is_certain: bool) -> Self {
        Self { reason: Arc::new(reason), is_certain }
    }

    fn error(&self) -> StoreError {
        let cause: Cause = Box::new(Arc::clone(&self.reason));
        if self.is_certain { StoreError::Unavailable(cause) } else { StoreError::OutcomeUnknown(cause) }
    }
}

/// Applies `batch` as `number` in a transaction that is not committed yet, and adds to `lines` what the journal must have.
fn begin<'a>(
    database: &'a Connection,
    number: i64,
    batch: &[Write],
    lines: &mut Vec<Line>,
) -> rusqlite::Result<(Transaction<'a>, Vec<Outcome>)> {
    let transaction = Transaction::new_unchecked(database, TransactionBehavior::Immediate)?;
    let outcomes = batch.iter().map(|write| write.operation.apply(&transaction, lines));
    let outcomes = outcomes.collect::<rusqlite::Result<Vec<_>>>()?;
    set(&transaction, BATCH, number)?;
    Ok((transaction, outcomes))
}

/// The writer thread's own state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// `None` while the database cannot be opened.
    database: Option<Connection>,
    journal: Journal,
    /// The number of the last batch in the database.
    batch: i64,
    /// When the log is emptied, which may have text that was deleted or replaced.
    clean_at: Option<Instant>,
}

impl Writer {
    /// The writer of `database`, to which the journal is applied.
    pub(super) fn new(shared: Arc<Shared>, database: Connection, journal: Journal) -> Result<Self, ReadError> {
        let batch = setting(&database, BATCH)?.unwrap_or_default();
        let mut writer = Self { shared, database: Some(database), journal, batch, clean_at: None };
        writer.catch_up()?;
        // As a process leaves the log that was killed.
        writer.clean_at = Some(Instant::now() + CLEAN_AFTER);
        Ok(writer)
    }

    pub(super) fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        loop {
            let wait = match (&self.database, self.clean_at) {
                (None, _) => RETRY_EVERY,
                (_, Some(at)) => at.saturating_duration_since(Instant::now()),
                (_, None) => Duration::MAX,
            };
            match jobs.recv_timeout(wait) {
                Ok(Job::Write(first)) => {
                    let mut batch = vec![*first];
                    let mut is_last = false;
                    while batch.len() < BATCH_OPERATIONS && !is_last {
                        match jobs.try_recv() {
                            Ok(Job::Write(next)) => batch.push(*next),
                            Ok(Job::Close) => is_last = true,
                            Err(_) => break,
                        }
                    }
                    self.commit(batch);
                    if is_last {
                        break;
                    }
                }
                Ok(Job::Close) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.database.is_none() {
                self.open_again();
            } else if self.clean_at.is_some_and(|at| at <= Instant::now()) {
                self.clean();
            }
        }
        // The last connection removes the log, and with it the last of deleted text.
        let mut is_open = self.shared.is_open.write();
        *is_open = false;
        self.shared.readers.lock().clear();
        if let Some(database) = self.database.take()
            && let Err(error) = checkpoint(&database, "TRUNCATE")
        {
            warn!(%error, "the log of the database was not applied to its file; the next start does it");
        }
    }

    pub(super) fn commit(&mut self, mut batch: Vec<Write>) {
        // Whether a write whose caller has given up is done is left open.
        batch.retain(|write| !write.answer.is_closed());
        if batch.is_empty() {
            return;
        }
        if self.database.is_none() {
            self.open_again();
        }
        let shared = Arc::clone(&self.shared);
        let changing = shared.marks.change(batch.iter().filter_map(|write| write.operation.changed()));
        let outcomes = self.try_commit(&batch);
        drop(changing);
        if let Err(Failure { reason, is_certain }) = &outcomes {
            error!(%reason, is_certain, "a batch of writes failed");
        }
        for (number, Write { answer, permit, .. }) in batch.into_iter().enumerate() {
            drop(permit);
            // Sending fails if the caller has given up.
            let _ = answer.send(outcomes.as_ref().map(|outcomes| outcomes[number]).map_err(Failure::error));
        }
    }

    fn try_commit(&mut self, batch: &[Write]) -> Result<Vec<Outcome>, Failure> {
        let Some(database) = &self.database else { return Err(Failure::new(Closed, true)) };
        let (number, mut lines) = (self.batch + 1, Vec::new());
        let error = 'failed: {
            let (transaction, outcomes) = match begin(database, number, batch, &mut lines) {
                Ok(begun) => begun,
                Err(error) => break 'failed error,
            };
            if !outcomes.contains(&Outcome::Done) {
                return Ok(outcomes);
            }
            let mut applied = Ok(());
            if !lines.is_empty() {
                self.journal.append(&lines).map_err(|error| Failure::new(error.reason, error.is_certain))?;
                applied = set_json(&transaction, APPLIED, self.journal.end());
            }
            if let Err(error) = applied.and_then(|()| transaction.commit()) {
                return self.settle(number, outcomes, &lines, error);
            }
            self.batch = number;
            if batch.iter().any(|write| write.operation.changed().is_some()) {
                self.clean_at.get_or_insert_with(|| Instant::now() + CLEAN_AFTER);
            }
            return Ok(outcomes);
        };
        if !is_refused(&error) {
            self.open_again();
        }
        Err(Failure::new(error, true))
    }

    /// Finds out whether the batch `number` was committed, whose commit failed with `error`.
    fn settle(
        &mut self,
        number: i64,
        outcomes: Vec<Outcome>,
        lines: &[Line],
        error: rusqlite::Error,
    ) -> Result<Vec<Outcome>, Failure> {
        if !is_refused(&error) {
            self.connect_again();
            if self.database.is_none() {
                return Err(Failure::new(error, false));
            }
            if self.batch >= number {
                self.settle_journal();
                return Ok(outcomes);
            }
        }
        let voids: Vec<_> = lines.iter().map(void).collect();
        let is_void = voids.is_empty() || self.journal.append(&voids).is_ok();
        if is_void {
            self.settle_journal();
        } else {
            // The acts are in the journal, so they are done as soon as that is possible.
            self.database = None;
        }
        Err(Failure::new(error, is_void))
    }

    /// Opens the database again, and applies what the journal has and the database does not.
    fn open_again(&mut self) {
        self.connect_again();
        self.settle_journal();
    }

    fn settle_journal(&mut self) {
        let shared = Arc::clone(&self.shared);
        let changing = shared.marks.change_all();
        if self.database.is_some()
            && let Err(error) = self.catch_up()
        {
            error!(%error, "the journal cannot be applied to the database");
            self.database = None;
        }
        drop(changing);
    }

    /// Closes all connections and opens the database again, so that SQLite reads from the files what is true.
    fn connect_again(&mut self) {
        let shared = Arc::clone(&self.shared);
        let changing = shared.marks.change_all();
        let lock = shared.is_open.write();
        shared.readers.lock().clear();
        let was_open = self.database.take().is_some();
        let opened = shared.opening.for_writing().map_err(|error| error.to_string()).and_then(|database| {
            // What is in the log may not be on disk yet. This waits for no other program that reads it.
            checkpoint(&database, "PASSIVE").map_err(|error| error.to_string())?;
            let batch = setting(&database, BATCH).map_err(|error| error.to_string())?.unwrap_or_default();
            Ok((database, batch))
        });
        match opened {
            Ok((database, batch)) => {
                info!("the database was opened again");
                (self.database, self.batch) = (Some(database), batch);
            }
            Err(reason) if was_open => error!(%reason, "the database cannot be opened again; trying every second"),
            Err(_) => {}
        }
        drop((lock, changing));
    }

    /// Applies the lines of the journal that the database does not have.
    fn catch_up(&mut self) -> Result<(), ReadError> {
        let Some(database) = &self.database else { return Ok(()) };
        let applied: Place = json_setting(database, APPLIED)?;
        if applied == *self.journal.end() {
            return Ok(());
        }
        let (mut lines, mut changed) = (0_u64, 0_u64);
        let transaction = Transaction::new_unchecked(database, TransactionBehavior::Immediate)?;
        // Pages that the database does not have: whether they were hidden or shown last decides whether they are deleted.
        let mut missing = Vec::new();
        self.journal.lines_after(&applied, |line| {
            match line.act() {
                Some(Act::Turn { slug, at, hidden, version }) if state(&transaction, &slug)?.is_none() => {
                    missing.push((at, Act::Turn { slug, version, at, hidden }));
                }
                Some(act) => changed += u64::from(replay(&transaction, act)?),
                None => {}
            }
            lines += 1;
            if lines.is_multiple_of(LINES_AT_ONCE) {
                transaction.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
            }
            Ok::<_, ReadError>(())
        })?;
        missing.sort_by_key(|(at, _)| *at);
        let last: HashMap<_, _> = missing.into_iter().map(|(_, act)| (act.slug().to_string(), act)).collect();
        for act in last.into_values() {
            changed += u64::from(replay(&transaction, act)?);
        }
        set_json(&transaction, APPLIED, self.journal.end())?;
        transaction.commit()?;
        warn!(lines, changed, "lines of the journal were applied that the database did not have");
        Ok(())
    }

    /// Applies the log to the file and empties it, so that deleted text is in neither. Another program that reads, such as
    /// Litestream, may keep this from being done, and writes do not wait for it.
    pub(super) fn clean(&mut self) {
        let Some(database) = &self.database else { return };
        let is_clean = database.busy_timeout(Duration::ZERO).and_then(|()| checkpoint(database, "TRUNCATE")).is_ok();
        self.clean_at = if is_clean { None } else { Some(Instant::now() + CLEAN_AGAIN) };
        if let Err(error) = database.busy_timeout(BUSY_TIMEOUT) {
            warn!(%error, "statements do not wait for other programs any more");
        }
    }
}

/// Applies the log of `database` to its file, syncs that, and empties the log if `mode` is `TRUNCATE`.
fn checkpoint(database: &Connection, mode: &str) -> rusqlite::Result<()> {
    let is_busy: bool = database.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(0))?;
    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    if is_busy { Err(rusqlite::Error::SqliteFailure(busy, None)) } else { Ok(()) }
}

/// Whether SQLite refuses a transaction with `error` before it has written its end, and can go on.
fn is_refused(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ReadOnly)
    )
}
