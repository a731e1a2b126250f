//! Export, backup, import and restore: which store, which file, and what the operator is told.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use super::backends::{Moved, moved};
use super::deps::Deps;
pub use super::remote_records::Ask;
use super::remote_records::RemoteRecords;
use crate::backends::cql::{self, CqlLedger, CqlStore};
use crate::backends::redb::{LEDGER_FILE, OpenError, RedbStore, Restoring};
use crate::config::{EmbeddedSettings, MovingSettings};
pub use crate::domain::archive::Summary;
use crate::domain::archive::{ArchiveError, Entry};
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::page_import::PageImport;
use crate::ports::page_scan::PageScan;
use crate::ports::page_store::StoreError;
use crate::ports::renderer::RenderError;
use crate::transfer::export;
pub use crate::transfer::export::Selection;
use crate::transfer::file::{FileError, NewFile, Records, verify};
pub use crate::transfer::import::Counts;
use crate::transfer::import::{ImportError, Importer};
use crate::transfer::receive::Receiver;

/// Records that are imported at the same time: enough to share the store's commits, and half as many as the embedded
/// store looks up at a time, so that an import never waits for a permit, however slow the machine is.
const IMPORTS_AT_ONCE: usize = 32;

/// Gets the number of records that are done, and about how many there are.
pub type Progress<'a> = &'a dyn Fn(u64, Option<u64>);

/// The place that an export goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A new file.
    File(PathBuf),
    /// Standard output, uncompressed.
    Stdout,
}

/// Why records could not be moved.
#[derive(Debug, Error)]
pub enum MoveError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store failed.
    #[error("the store failed ({}): nothing that is in it is lost; run the command again", cause(.0))]
    Store(#[from] StoreError),
    /// A page's HTML could not be made.
    #[error("{0}: nothing that is in the store is lost; run the command again")]
    Rendering(RenderError),
    /// Deletions are stored, but the ledger of deletions lacks them.
    #[error(
        "deletions are stored, but the ledger of deletions could not be written ({}), so a restore could bring pages back: make it writable and run the command again",
        cause(.0)
    )]
    NotInLedger(StoreError),
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The lines that arrived are not a whole archive.
    #[error("what was read is no whole archive ({0}): run the command again")]
    Archive(#[from] ArchiveError),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
    /// The cluster cannot be used.
    #[error(transparent)]
    Cluster(#[from] cql::ReachError),
    /// A runtime cannot be created.
    #[error("the operating system refused a basic resource ({0})")]
    System(io::Error),
}

impl From<ImportError> for MoveError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Store(error) => Self::Store(error),
            ImportError::Rendering(error) => Self::Rendering(error),
            ImportError::NotInLedger(error) => Self::NotInLedger(error),
        }
    }
}

/// The innermost reason.
fn cause(error: &StoreError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Writes the records of the cluster, or of an embedded store that no process uses. Returns what the file holds.
pub fn export(
    settings: &MovingSettings,
    to: &Destination,
    selection: Selection,
    progress: Progress<'_>,
) -> Result<Summary, MoveError> {
    runtime()?.block_on(async {
        let store = match moved(settings) {
            Moved::Files(embedded) => Arc::new(RedbStore::open_existing(&embedded.data_dir)?),
            Moved::Cluster(cluster) => {
                let store = Arc::new(CqlStore::reach(&cluster).await?);
                let records: Arc<dyn PageScan> = match selection {
                    Selection::All => store,
                    Selection::Deletions => Arc::new(CqlLedger::of(store)),
                };
                return write(records, to, selection, progress).await;
            }
        };
        let written = write(Arc::clone(&store) as _, to, selection, progress).await;
        store.close().await;
        written
    })
}

/// Writes the records of a running process. Returns what the file holds.
pub fn export_running(
    ask: &Ask,
    to: &Destination,
    selection: Selection,
    progress: Progress<'_>,
) -> Result<Summary, MoveError> {
    runtime()?.block_on(write(Arc::new(RemoteRecords::new(Arc::clone(ask))), to, selection, progress))
}

async fn write(
    store: Arc<dyn PageScan>,
    to: &Destination,
    selection: Selection,
    progress: Progress<'_>,
) -> Result<Summary, MoveError> {
    let archive = export::archive(store, selection, SystemClock::new().now());
    save(std::pin::pin!(archive.map(|piece| Ok(piece?))), to, progress).await
}

/// Writes an archive that arrives, and checks that it is whole. A file gets its name only then.
async fn save(
    mut archive: impl Stream<Item = Result<Bytes, MoveError>> + Unpin,
    to: &Destination,
    progress: Progress<'_>,
) -> Result<Summary, MoveError> {
    let mut receiver = Receiver::default();
    let mut file = match to {
        Destination::File(path) => Some(NewFile::create(path)?),
        Destination::Stdout => None,
    };
    while let Some(piece) = archive.next().await {
        let piece = piece?;
        receiver.take(&piece)?;
        match &mut file {
            Some(file) => file.write(&piece)?,
            None => io::stdout().write_all(&piece).map_err(MoveError::Output)?,
        }
        progress(receiver.records(), receiver.expected());
    }
    let summary = receiver.end()?;
    match file {
        Some(file) => file.finish()?,
        None => io::stdout().flush().map_err(MoveError::Output)?,
    }
    Ok(summary)
}

/// Stores the records of `files`, in order, in a store. All files are read before the first record is stored.
pub fn import(settings: &MovingSettings, files: &[PathBuf], progress: Progress<'_>) -> Result<Counts, MoveError> {
    let expected = verify_all(files, progress)?;
    match moved(settings) {
        Moved::Files(embedded) => import_into(&embedded.data_dir, files, expected, progress),
        Moved::Cluster(cluster) => runtime()?.block_on(async {
            let store = Arc::new(CqlStore::reach(&cluster).await?);
            store_files(store, files, expected, progress).await
        }),
    }
}

/// Makes a new embedded store from the backup `from` and the deletions in `ledgers`. A ledger that is in the data
/// directory already counts too.
pub fn restore(
    embedded: &EmbeddedSettings,
    from: &Path,
    ledgers: &[PathBuf],
    progress: Progress<'_>,
) -> Result<Counts, MoveError> {
    let restoring = Restoring::begin(&embedded.data_dir)?;
    let beside = embedded.data_dir.join(LEDGER_FILE);
    // Deletions come first: so no deleted page is in the store at any moment, even if the restore is interrupted.
    let mut files: Vec<_> = ledgers.to_vec();
    let is_begun = beside.metadata().is_ok_and(|ledger| ledger.len() > 0);
    files.extend(is_begun.then_some(beside));
    files.push(from.to_owned());
    let expected = verify_all(&files, progress)?;
    let counts = import_into(&restoring.directory(), &files, expected, progress)?;
    restoring.finish()?;
    Ok(counts)
}

/// Reads all files. Returns how many records they have.
fn verify_all(files: &[PathBuf], progress: Progress<'_>) -> Result<u64, MoveError> {
    let mut records = 0;
    for file in files {
        let (_, summary) = verify(file, |count| progress(count, None))?;
        records += summary.records;
    }
    Ok(records)
}

fn import_into(data_dir: &Path, files: &[PathBuf], expected: u64, progress: Progress<'_>) -> Result<Counts, MoveError> {
    runtime()?.block_on(async {
        let store = Arc::new(RedbStore::open(data_dir)?);
        let counts = store_files(Arc::clone(&store) as _, files, expected, progress).await?;
        store.close().await;
        Ok(counts)
    })
}

async fn store_files(
    store: Arc<dyn PageImport>,
    files: &[PathBuf],
    expected: u64,
    progress: Progress<'_>,
) -> Result<Counts, MoveError> {
    let Deps { renderer, clock, .. } = Deps::system();
    let importer = Importer { store, renderer, clock };
    let mut counts = Counts::default();
    for file in files {
        store_records(&importer, Records::open(file)?, &mut counts, &|done| progress(done, Some(expected))).await?;
    }
    Ok(counts)
}

async fn store_records(
    importer: &Importer,
    records: Records,
    counts: &mut Counts,
    progress: &dyn Fn(u64),
) -> Result<(), MoveError> {
    let (send, mut received) = mpsc::channel::<Result<Entry, FileError>>(IMPORTS_AT_ONCE);
    let reading = tokio::task::spawn_blocking(move || {
        for entry in records {
            // The receiver is gone after an error.
            if send.blocking_send(entry).is_err() {
                break;
            }
        }
    });
    let entries = stream::poll_fn(move |context| received.poll_recv(context));
    let mut importing = std::pin::pin!(
        entries
            .map(|entry| async { Ok::<_, MoveError>(importer.import(entry?).await?) })
            .buffer_unordered(IMPORTS_AT_ONCE)
    );
    while let Some(done) = importing.next().await {
        counts.count(done?);
        progress(counts.total());
    }
    reading.await.map_err(|error| MoveError::System(io::Error::other(error)))
}

/// Refuses `backup` for a store that it does not work on. The error is one line for the operator.
pub fn check_backup(settings: &MovingSettings) -> Result<(), &'static str> {
    match moved(settings) {
        Moved::Files(_) => Ok(()),
        Moved::Cluster(_) => Err("backup works on the embedded store: use export, or the snapshots of the cluster"),
    }
}

/// The newest backup in the folder `directory`, or `directory` itself if it is a file.
pub fn newest_backup(directory: &Path) -> Result<PathBuf, MoveError> {
    if directory.is_file() {
        return Ok(directory.to_owned());
    }
    let refused = |reason| FileError::Io { path: directory.to_owned(), action: "read", reason };
    let mut newest = None;
    for entry in std::fs::read_dir(directory).map_err(refused)? {
        let name = entry.map_err(refused)?.file_name();
        if name.to_str().is_some_and(is_backup_name) {
            newest = newest.max(Some(name));
        }
    }
    let none = || refused(io::Error::new(io::ErrorKind::NotFound, "there is no backup in it"));
    Ok(directory.join(newest.ok_or_else(none)?))
}

/// The beginning and end of a backup's name. The time between them sorts as text.
const BACKUP_NAME: (&str, &str) = ("handbill-", ".ndjson.zst");

fn is_backup_name(name: &str) -> bool {
    name.starts_with(BACKUP_NAME.0) && name.ends_with(BACKUP_NAME.1)
}

/// The name of a backup that begins now.
pub fn new_backup_in(directory: &Path) -> PathBuf {
    let time = SystemClock::new().now().to_string().replace([':', '.'], "-");
    directory.join(format!("{}{time}{}", BACKUP_NAME.0, BACKUP_NAME.1))
}

fn runtime() -> Result<Runtime, MoveError> {
    Builder::new_multi_thread().enable_all().build().map_err(MoveError::System)
}
