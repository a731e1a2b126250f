//! The one thread that writes.
//!
//! It applies the waiting operations in one transaction, commits once, and then answers each caller. Operations that
//! arrive meanwhile form the next batch: under load many callers share a sync, and without load none waits. An
//! error ends the whole batch, and the transaction is rolled back: nothing is done in part.

use std::iter;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use handbill_pages::ports::page_store::{ChangeListener, PutResult, StoreError};
use handbill_pages::values::journal::{Line, Outlook};
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::{error, warn};

use super::change::{Operation, replay};
use super::database::{APPLIED, BUSY_TIMEOUT, DatabaseOptions, ReadError, set, setting};
use super::directory::DatabaseFile;
use super::journal::{Journal, JournalPosition, void};

const BATCH_OPERATIONS: usize = 256;

/// How soon lines of the journal that could not be applied are tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// How soon after a change deleted and replaced text leaves the files.
const CLEAN_AFTER: Duration = Duration::from_mins(1);

/// How soon the log is emptied again that another program was reading.
const CLEAN_AGAIN: Duration = Duration::from_secs(10);

/// Lines of the journal in one transaction.
const LINES_AT_ONCE: usize = 1000;

/// With 10, reads get nine times the writer's share of a busy core.
#[cfg(target_os = "linux")]
const NICE_INCREMENT: i32 = 10;

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const FENCE: &str = "INSERT OR REPLACE INTO settings VALUES ('fence', random())";

pub(super) struct Shared {
    pub(super) options: DatabaseOptions,
    pub(super) file: DatabaseFile,
    /// The cache that is told of each change of a page.
    pub(super) listener: OnceLock<Arc<dyn ChangeListener>>,
    /// Connections for reading that nobody uses.
    pub(super) readers: Mutex<Vec<Connection>>,
}

impl Shared {
    pub(super) fn new(options: DatabaseOptions) -> Self {
        let file = DatabaseFile::at(options.path.clone());
        Self { options, file, listener: OnceLock::new(), readers: Mutex::default() }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let spare = self.readers.lock().pop();
        let database = spare.map_or_else(|| self.options.for_reading(), Ok)?;
        let found = read(&database);
        // Afterwards: a connection that was opened now may be to another store.
        self.file.is_in_place()?;
        // A failed connection is not used again.
        if !matches!(found, Err(ReadError::Database(_))) {
            self.readers.lock().push(database);
        }
        found
    }
}

pub(super) struct Write {
    pub(super) operation: Operation,
    pub(super) answer: oneshot::Sender<Result<PutResult, StoreError>>,
    /// The operation's place in the queue.
    pub(super) _permit: Option<OwnedSemaphorePermit>,
}

/// Why a batch was not done, or may not have been.
struct Failure {
    reason: String,
    /// Whether nothing was changed.
    is_certain: bool,
}

impl Failure {
    fn new(reason: &impl ToString, is_certain: bool) -> Self {
        Self { reason: reason.to_string(), is_certain }
    }

    fn error(&self) -> StoreError {
        let cause = self.reason.clone().into();
        if self.is_certain { StoreError::Unavailable(cause) } else { StoreError::OutcomeUnknown(cause) }
    }
}

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    database: Connection,
    journal: Journal,
    /// The journal has lines that must be applied first.
    is_behind: bool,
    /// When to empty SQLite's log next. Until then it may hold deleted or replaced text.
    clean_at: Option<Instant>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, database: Connection, journal: Journal) -> Result<Self, ReadError> {
        // A killed process leaves its log.
        let clean_at = Some(Instant::now() + CLEAN_AFTER);
        let mut writer = Self { shared, database, journal, is_behind: true, clean_at };
        writer.catch_up()?;
        Ok(writer)
    }

    /// Writes until every sender of `writes` is dropped. The thread gives way to reads: they take microseconds, and long
    /// commits would delay them on a busy core.
    pub(super) fn run(mut self, writes: &mpsc::Receiver<Write>) {
        // On Linux only: elsewhere niceness belongs to the process.
        #[cfg(target_os = "linux")]
        if let Ok(niceness) = rustix::process::getpriority_process(None) {
            let _ = rustix::process::setpriority_process(None, niceness + NICE_INCREMENT);
        }
        loop {
            let clean_in = self.clean_at.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = if self.is_behind { RETRY_EVERY } else { clean_in.unwrap_or(Duration::MAX) };
            match writes.recv_timeout(wait) {
                Ok(first) => self.commit(iter::once(first).chain(writes.try_iter()).take(BATCH_OPERATIONS).collect()),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if self.is_behind => {
                    let _ = self.catch_up();
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.clean_at.is_some_and(|at| at <= Instant::now()) {
                self.clean();
            }
        }
        // Without readers the log is emptied, with the last deleted text.
        self.shared.readers.lock().clear();
        if let Err(error) = checkpoint(&self.database) {
            warn!(%error, "the log of the database was not applied to its file; the next start does it");
        }
    }

    pub(super) fn commit(&mut self, mut batch: Vec<Write>) {
        // A write whose caller has given up need not be done.
        batch.retain(|write| !write.answer.is_closed());
        if batch.is_empty() {
            return;
        }
        // Before the cache is told of the batch, because this tells it too, perhaps of the same pages.
        let caught_up = if self.is_behind { self.catch_up() } else { Ok(()) };
        let shared = Arc::clone(&self.shared);
        let changed: Vec<_> = batch.iter().filter_map(|write| write.operation.changed()).collect();
        let changing = shared.listener.get().map(|listener| listener.change(&changed));
        let caught_up = caught_up.map_err(|error| Failure::new(&error, true));
        let outcomes = caught_up.and_then(|()| self.try_commit(&batch));
        drop(changing);
        if let Err(Failure { reason, is_certain }) = &outcomes {
            error!(reason, is_certain, "a batch of writes failed");
        }
        for (number, Write { answer, .. }) in batch.into_iter().enumerate() {
            let _ = answer.send(outcomes.as_ref().map(|outcomes| outcomes[number]).map_err(Failure::error));
        }
    }

    fn try_commit(&mut self, batch: &[Write]) -> Result<Vec<PutResult>, Failure> {
        self.shared.file.is_in_place().map_err(|moved| Failure::new(&moved, true))?;
        let mut lines = Vec::new();
        let applied = run(&self.database, BEGIN)
            .and_then(|()| batch.iter().map(|write| write.operation.apply(&self.database, &mut lines)).collect());
        let outcomes: Vec<_> = applied.map_err(|error| {
            roll_back(&self.database);
            Failure::new(&error, true)
        })?;
        if !outcomes.contains(&PutResult::Done) {
            roll_back(&self.database);
            return Ok(outcomes);
        }
        let mut noted = Ok(());
        if !lines.is_empty() {
            if let Err(reason) = self.journal.append(&lines) {
                roll_back(&self.database);
                return Err(Failure::new(&reason, !self.journal.is_torn));
            }
            noted = set(&self.database, APPLIED, self.journal.end().to_text());
        }
        if let Err(error) = noted.and_then(|()| run(&self.database, COMMIT)) {
            let is_certain = self.take_back(&lines, &error);
            return Err(Failure::new(&error, is_certain));
        }
        if batch.iter().any(|write| write.operation.changed().is_some()) {
            self.clean_at.get_or_insert_with(|| Instant::now() + CLEAN_AFTER);
        }
        Ok(outcomes)
    }

    /// Returns whether transaction and lines are certainly taken back.
    fn take_back(&mut self, lines: &[Line], error: &rusqlite::Error) -> bool {
        roll_back(&self.database);
        // After a crash SQLite would find the transaction in its log. Another commit overwrites it there, if it changes
        // something.
        let is_gone = is_refused(error) || self.database.execute(FENCE, []).is_ok();
        let voids: Vec<_> = lines.iter().map(void).collect();
        // Lines that stay are applied as soon as possible.
        self.is_behind |= !voids.is_empty();
        is_gone && (voids.is_empty() || self.journal.append(&voids).is_ok())
    }

    fn catch_up(&mut self) -> Result<(), ReadError> {
        let applied = self.apply_journal();
        roll_back(&self.database);
        self.is_behind = applied.is_err();
        if let Err(error) = &applied {
            error!(%error, "the journal cannot be applied to the database");
        }
        applied
    }

    fn apply_journal(&self) -> Result<(), ReadError> {
        let database = &self.database;
        let applied = setting(database, APPLIED)?
            .map_or_else(JournalPosition::default, |text: String| JournalPosition::parse(&text));
        if applied == *self.journal.end() {
            return Ok(());
        }
        let begin = self.journal.begin_after(&applied)?;
        let (mut outlook, mut lines) = (Outlook::default(), 0_u64);
        for line in self.journal.lines_from(begin)? {
            lines += 1;
            match line? {
                (_, Some(line)) => outlook.note(&line),
                (byte, None) => error!(byte, "a line of the journal is damaged, and is left out"),
            }
        }
        let mut acts = self.journal.lines_from(begin)?.filter_map(|line| match line {
            Ok((_, line)) => line.filter(|line| outlook.must_repeat(line))?.act().map(Ok),
            Err(error) => Some(Err(error)),
        });
        let mut changed = 0_u64;
        loop {
            let acts: Vec<_> = acts.by_ref().take(LINES_AT_ONCE).collect::<Result<_, _>>()?;
            if acts.is_empty() {
                break;
            }
            let slugs: Vec<_> = acts.iter().map(|act| &act.slug).collect();
            let _changing = self.shared.listener.get().map(|listener| listener.change(&slugs));
            run(database, BEGIN)?;
            for act in &acts {
                changed += u64::from(replay(database, act)?);
            }
            run(database, COMMIT)?;
        }
        set(database, APPLIED, self.journal.end().to_text())?;
        warn!(lines, changed, "lines of the journal were applied that the database did not have");
        Ok(())
    }

    /// Applies the log and empties it, so that deleted text is in neither. Readers such as Litestream may prevent it;
    /// writes do not wait.
    pub(super) fn clean(&mut self) {
        let database = &self.database;
        let is_clean = database.busy_timeout(Duration::ZERO).and_then(|()| checkpoint(database)).is_ok();
        self.clean_at = if is_clean { None } else { Some(Instant::now() + CLEAN_AGAIN) };
        if let Err(error) = database.busy_timeout(BUSY_TIMEOUT) {
            warn!(%error, "statements do not wait for other programs any more");
        }
    }
}

fn run(database: &Connection, sql: &str) -> rusqlite::Result<()> {
    database.prepare_cached(sql)?.execute([]).map(drop)
}

fn roll_back(database: &Connection) {
    if !database.is_autocommit()
        && let Err(error) = run(database, "ROLLBACK")
    {
        error!(%error, "a transaction cannot be rolled back");
    }
}

fn checkpoint(database: &Connection) -> rusqlite::Result<()> {
    let is_busy: bool = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    if is_busy { Err(rusqlite::Error::SqliteFailure(busy, None)) } else { Ok(()) }
}

/// Whether SQLite refused the commit before it wrote the transaction's end, so that it can continue.
fn is_refused(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ReadOnly)
    )
}
