//! The traits of a store, with a writer thread and reading connections.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::{fs, io, path::Path, time::Duration};

use async_trait::async_trait;
use handbill_pages::ports::operated_store::{ExportedJournal, OperatedStore};
use handbill_pages::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit};
use handbill_pages::ports::page_store::{ChangeListener, CreatesSwitch, Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::slug::{SECRET_BYTES, Slug, SlugSecret};
use handbill_pages::values::{record::Record, timestamp::UnixMillis};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task;
use tokio::time::{self, Instant};

use super::database::{self, BACKUP, Counts, DatabaseOptions, PAUSED, READS_AT_ONCE, ReadError, SECRET};
use super::directory::{self, COPY_FILE, DATABASE_FILE, DatabaseFile, Directory, JOURNAL_FILE};
use super::error::{OpenError, StoreEnded};
use super::writer::{Shared, Write, Writer};
use super::{change::Operation, journal::Journal};

/// Writes that wait at the same time. With the largest texts they take about 20 MB packed.
const WRITES_AT_ONCE: usize = 128;

const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

const CLOSED: &str = "the store is closed";

/// The pages of one data directory, which no other process may write while the store is open.
///
/// A call waits for its permit for 2 s, then fails with [`StoreError::Unavailable`]. A write then waits for its commit.
/// If its caller stops waiting, a write that has started is done completely.
///
/// Dropping the store commits queued writes and blocks; [`SqliteStore::close`] does not block.
pub struct SqliteStore {
    shared: Arc<Shared>,
    /// Until the store is closed.
    writer: Mutex<Option<(mpsc::Sender<Write>, JoinHandle<()>)>>,
    writes: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    has_ended: watch::Receiver<bool>,
    directory: Arc<Directory>,
    copying: Arc<Mutex<()>>,
}

impl SqliteStore {
    /// Opens the store and applies its journal. With `is_new` there must be no database, and may be a journal.
    pub fn open(data_dir: &Path, is_new: bool) -> Result<Self, OpenError> {
        Self::on(Directory::open(data_dir)?, is_new)
    }

    /// A store for tests, which ends with this value.
    pub fn temporary() -> Result<Self, OpenError> {
        Self::on(Directory::temporary()?, false)
    }

    fn on(directory: Directory, is_new: bool) -> Result<Self, OpenError> {
        let path = directory.path().join(DATABASE_FILE);
        let journal_path = directory.path().join(JOURNAL_FILE);
        let is_missing = database::is_missing(&path);
        if is_new && !is_missing {
            return Err(OpenError::NotLost(directory.path().to_owned()));
        }
        let has_journal = fs::metadata(&journal_path).is_ok_and(|found| found.len() > 0);
        if is_missing && has_journal && !is_new {
            return Err(OpenError::Lost(directory.path().to_owned()));
        }
        // A process that ended while it made a copy has left it.
        directory::remove_if_there(&directory.path().join(COPY_FILE)).map_err(|reason| OpenError::io(&path, reason))?;
        directory::create_file(&path).map_err(|reason| OpenError::io(&path, reason))?;
        let options = DatabaseOptions { path: path.clone(), is_durable: !directory.is_temporary() };
        let database = options.for_writing()?;
        let journal = Journal::open(&journal_path).map_err(|reason| OpenError::io(&journal_path, reason))?;
        directory::sync(directory.path()).map_err(|reason| OpenError::io(directory.path(), reason))?;
        let shared = Arc::new(Shared::new(options));
        let writer = Writer::new(Arc::clone(&shared), database, journal).map_err(|error| match error {
            ReadError::Database(error) => OpenError::database(&path, &error),
            ReadError::Journal(reason) => OpenError::io(&journal_path, reason),
            ReadError::Row(..) | ReadError::Moved(_) => {
                OpenError::Damaged { path: path.clone(), reason: error.to_string() }
            }
        })?;
        let (sender, queued) = mpsc::channel();
        let (end, has_ended) = watch::channel(false);
        let directory = Arc::new(directory);
        let lock = Arc::clone(&directory);
        let thread = thread::Builder::new().name("handbill-writer".to_owned()).spawn(move || {
            writer.run(&queued);
            drop(lock);
            end.send_replace(true);
        });
        Ok(Self {
            shared,
            writes: Arc::new(Semaphore::new(WRITES_AT_ONCE)),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
            writer: Mutex::new(Some((sender, thread.map_err(|reason| OpenError::io(&path, reason))?))),
            has_ended,
            directory,
            copying: Arc::default(),
        })
    }

    /// Returns only if the store has ended by itself. End the process, so that its supervisor restarts it.
    pub async fn fatal_error(&self) -> StoreEnded {
        let mut has_ended = self.has_ended.clone();
        // Only a panic drops the sender early.
        if has_ended.wait_for(|has_ended| *has_ended).await.is_err() {
            return StoreEnded;
        }
        std::future::pending().await
    }

    pub fn file(&self) -> &DatabaseFile {
        &self.shared.file
    }

    pub async fn counts(&self) -> Result<Counts, StoreError> {
        self.read(database::counts).await
    }

    fn end_writer(&self) -> Option<JoinHandle<()>> {
        self.reads.close();
        self.writes.close();
        let (_, thread) = self.writer.lock().take()?;
        Some(thread)
    }

    pub async fn last_backup(&self) -> Result<Option<UnixMillis>, StoreError> {
        let text: Option<String> = self.read(|database| Ok(database::setting(database, BACKUP)?)).await?;
        Ok(text.as_deref().and_then(UnixMillis::parse))
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = permit(&self.reads).await?;
        let shared = Arc::clone(&self.shared);
        // The permit comes back with the answer, so answers cannot pile up.
        let reading = task::spawn_blocking(move || (shared.read(read), permit));
        let (found, _permit) = reading.await.map_err(|panicked| StoreError::Unavailable(panicked.into()))?;
        Ok(found?)
    }

    pub(super) async fn write(&self, operation: Operation) -> Result<PutResult, StoreError> {
        let permit = permit(&self.writes).await?;
        let (answer, answered) = oneshot::channel();
        let write = Write { operation, answer, _permit: Some(permit) };
        let sent = self.writer.lock().as_ref().is_some_and(|(writer, _)| writer.send(write).is_ok());
        if !sent {
            return Err(StoreError::Unavailable(CLOSED.into()));
        }
        // If there is no answer, the writer has ended: without the write, unless it has panicked in the middle of it.
        answered.await.unwrap_or_else(|_| Err(StoreError::OutcomeUnknown(CLOSED.into())))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if let Some(writer) = self.end_writer() {
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl PageStore for SqliteStore {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        let secret: Option<[u8; SECRET_BYTES]> = self.read(|database| Ok(database::setting(database, SECRET)?)).await?;
        let secret = secret.ok_or_else(|| StoreError::Unreadable("the secret for slugs is missing".into()))?;
        Ok(SlugSecret::from_bytes(secret))
    }

    async fn lookup(&self, slug: &Slug) -> Result<Option<Record>, StoreError> {
        let slug = slug.clone();
        self.read(move |database| database::find(database, &slug)).await
    }

    fn system(&self) -> Option<&'static str> {
        Some("sqlite")
    }

    fn subscribe(&self, listener: Arc<dyn ChangeListener>) -> bool {
        self.shared.listener.set(listener).is_ok()
    }

    async fn put(&self, expected: Expected, next: Record, _: Option<Instant>) -> Result<PutResult, StoreError> {
        self.write(Operation::put(expected, next).map_err(|error| StoreError::Unavailable(error.into()))?).await
    }
}

#[async_trait]
impl CreatesSwitch for SqliteStore {
    async fn paused(&self) -> Result<bool, StoreError> {
        let text: Option<String> = self.read(|database| Ok(database::setting(database, PAUSED)?)).await?;
        Ok(text.is_some_and(|text| text == true.to_string()))
    }

    async fn set_paused(&self, paused: bool) -> Result<(), StoreError> {
        self.write(Operation::Set(PAUSED, paused.to_string())).await.map(drop)
    }
}

#[async_trait]
impl PageScan for SqliteStore {
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let after = after.map_or(Some(String::new()), |cursor| {
            String::from_utf8(cursor.as_bytes().to_vec()).ok().filter(|name| !name.is_empty())
        });
        let after = after.ok_or_else(|| StoreError::Unavailable("the cursor belongs to another store".into()))?;
        self.read(move |database| database::batch(database, &after, limit)).await
    }
}

#[async_trait]
impl OperatedStore for SqliteStore {
    async fn journal(&self, _since: Option<UnixMillis>) -> Result<ExportedJournal, StoreError> {
        self.file().is_in_place().map_err(ReadError::from)?;
        Ok(ExportedJournal::File(self.directory.path().join(JOURNAL_FILE)))
    }

    async fn copy(&self) -> Result<Option<fs::File>, StoreError> {
        let shared = Arc::clone(&self.shared);
        let path = self.directory.path().join(COPY_FILE);
        let copying = Arc::clone(&self.copying);
        let copied = task::spawn_blocking(move || {
            // The copies share one name.
            let _alone = copying.lock();
            shared.file.is_in_place()?;
            directory::remove_if_there(&path)?;
            let file = directory::create_file(&path)?;
            let name = path.to_str().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
            let copied = shared.options.for_reading().and_then(|database| database.execute("VACUUM INTO ?1", [name]));
            fs::remove_file(&path)?;
            copied?;
            shared.file.is_in_place()?;
            Ok::<_, ReadError>(Some(file))
        });
        Ok(copied.await.map_err(|panicked| StoreError::Unavailable(panicked.into()))??)
    }

    async fn note_backup(&self, at: UnixMillis) -> Result<(), StoreError> {
        self.write(Operation::Set(BACKUP, at.to_string())).await.map(drop)
    }

    async fn close(&self) {
        if let Some(writer) = self.end_writer() {
            let _ = task::spawn_blocking(move || writer.join()).await;
        }
    }
}

/// A permit of `semaphore`, if it is free soon.
async fn permit(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, StoreError> {
    match time::timeout(PERMIT_TIMEOUT, Arc::clone(semaphore).acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) => Err(StoreError::Unavailable(CLOSED.into())),
        Err(_) => Err(StoreError::Unavailable("too many calls wait for the store".into())),
    }
}
