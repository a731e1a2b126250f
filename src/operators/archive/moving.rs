//! Whole exports and imports over an open store: which files, and how far they are.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::export::{self, Piece, Selection};
use super::file::{FileError, NewFile, Records, Skip, folder_of, remove_if_there, verify};
use super::import::{Counts, ImportError, Importer};
use super::receive::Receiver;
use handbill_core::domain::archive::{ArchiveError, Entry, LedgerCopy, Summary};
use handbill_core::domain::counted::counted;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_scan::PageScan;
use handbill_core::ports::page_store::StoreError;
use handbill_core::ports::renderer::RenderError;

/// Records that are imported at the same time: enough to share the store's commits, and half as many as the embedded
/// store looks up at a time, so that an import never waits for a permit, however slow the machine is.
const IMPORTS_AT_ONCE: usize = 32;

/// How often the place of an export is written down: what is read since is read again by the next attempt.
const KEPT_EVERY: Duration = Duration::from_secs(10);

/// Gets the number of records that are done, and about how many there are.
pub type Progress<'a> = &'a dyn Fn(u64, Option<u64>);

/// The place that an export goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    File(PathBuf),
    /// A file with a copy of a cluster's ledger.
    Ledger(PathBuf, LedgerCopy),
    /// A file with what the text names. If an earlier attempt to write the same did not end, it goes on where that was.
    Resumable(PathBuf, String),
    /// Standard output, uncompressed.
    Stdout,
}

#[derive(Debug, Error)]
pub enum MoveError {
    /// The store cannot be opened or reached.
    #[error("{0}")]
    Open(String),
    #[error("{0}")]
    InUse(String),
    #[error("the store failed ({}): nothing that is in it is lost; run the command again", cause(.0))]
    Store(#[from] StoreError),
    /// A page's HTML could not be made.
    #[error("{0}: nothing that is in the store is lost; run the command again")]
    Rendering(RenderError),
    #[error(
        "deletions are stored, but the ledger of deletions could not be written ({}), so a restore could bring pages back: make it writable and run the command again",
        cause(.0)
    )]
    NotInLedger(StoreError),
    #[error(transparent)]
    File(#[from] FileError),
    /// The lines that arrived are not a whole archive.
    #[error("what was read is no whole archive ({0}): run the command again")]
    Archive(#[from] ArchiveError),
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
    /// The thread that reads files ended early.
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

/// Writes the records of `store` that `selection` names, and checks that what was written is a whole archive. A file
/// gets its name only then. Returns what it holds.
pub async fn write(
    store: Arc<dyn PageScan>,
    to: &Destination,
    selection: Selection,
    now: UnixMillis,
    progress: Progress<'_>,
) -> Result<Summary, MoveError> {
    let mut receiver = Receiver::default();
    let (mut earlier, mut kept_at) = (None, None::<Instant>);
    let mut ledger = None;
    let mut file = match to {
        Destination::File(path) => Some(NewFile::create(path)?),
        Destination::Ledger(path, copy) => {
            ledger = Some(copy.clone());
            Some(NewFile::create(path)?)
        }
        Destination::Resumable(path, of) => match NewFile::go_on(path, of)? {
            Some((file, place, written)) => {
                let records = counted(written.records(), "record");
                eprintln!("handbill: the export goes on after {records} of an earlier attempt");
                earlier = Some((written.encoder(place.unreadable), place));
                receiver = written;
                Some(file)
            }
            None => Some(NewFile::create(path)?),
        },
        Destination::Stdout => None,
    };
    let mut archive = std::pin::pin!(export::archive(store, selection, now, ledger, earlier));
    while let Some(piece) = archive.next().await {
        let Piece { lines, place } = piece?;
        receiver.take(&lines)?;
        match &mut file {
            Some(file) => file.write(&lines)?,
            None => io::stdout().write_all(&lines).map_err(MoveError::Output)?,
        }
        if let (Some(file), Destination::Resumable(_, of), Some(place)) = (&mut file, to, place)
            && kept_at.is_none_or(|at| at.elapsed() > KEPT_EVERY)
        {
            file.keep(of, &place)?;
            kept_at = Some(Instant::now());
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

/// Reads all files. Returns how many records they have.
pub fn verify_all(files: &[PathBuf], skip: Option<&Skip>, progress: Progress<'_>) -> Result<u64, MoveError> {
    let mut records = 0;
    for file in files {
        let (_, summary) = verify(file, skip, |count| progress(count, None))?;
        if summary.unreadable > 0 {
            let (file, missing) = (file.display(), counted(summary.unreadable, "record"));
            eprintln!(
                "handbill: {file} lacks {missing} that could not be read when it was made: an older one may have what is missing"
            );
        }
        records += summary.records;
    }
    Ok(records)
}

/// Stores the records of `files`, in order. `expected` is how many there are.
pub async fn store_all(
    importer: &Importer,
    files: &[PathBuf],
    skip: Option<&Skip>,
    expected: u64,
    progress: Progress<'_>,
) -> Result<Counts, MoveError> {
    let mut counts = Counts::default();
    for file in files {
        let before = counts.tombstones;
        store_records(importer, Records::open(file, skip)?, &mut counts, &|done| progress(done, Some(expected)))
            .await?;
        counts.last_tombstones = counts.tombstones - before;
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

/// A backup, or a copy of the ledger alone, in a folder, by its name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupName {
    pub began_at: UnixMillis,
    pub path: PathBuf,
}

impl BackupName {
    /// The beginning and end of a name. Between them is the time.
    const fn around(selection: Selection) -> (&'static str, &'static str) {
        match selection {
            Selection::All => ("handbill-", ".ndjson.zst"),
            Selection::Deletions => ("handbill-", ".deletions.ndjson.zst"),
        }
    }

    fn of(selection: Selection, path: PathBuf) -> Option<Self> {
        let (before, after) = Self::around(selection);
        let time = path.file_name()?.to_str()?.strip_prefix(before)?.strip_suffix(after)?;
        let (day, time) = time.split_once('T')?;
        let began_at = UnixMillis::parse(&format!("{day}T{}", time.replacen('-', ":", 2).replacen('-', ".", 1)))?;
        Some(Self { began_at, path })
    }

    /// The copy of the ledger that belongs to the backup at `path`.
    pub fn ledger_of(path: &Path) -> PathBuf {
        path.with_extension("").with_extension("ledger")
    }

    /// The file that lies beside the backup at `path` if that lacks records.
    pub fn lacks_records(path: &Path) -> PathBuf {
        path.with_extension("").with_extension("lacks-records")
    }

    /// Whether `path` begins like a backup or its ledger.
    pub fn is_of_backup(path: &Path) -> bool {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(Self::around(Selection::All).0))
    }
}

/// The backups of what `selection` names in the folder `directory`, the newest last.
pub fn backups_in(directory: &Path, selection: Selection) -> Result<Vec<BackupName>, FileError> {
    let refused = |reason| FileError::Io { path: directory.to_owned(), action: "read", reason };
    let entries = std::fs::read_dir(directory).map_err(refused)?;
    let paths = entries.map(|entry| Ok(entry.map_err(refused)?.path())).collect::<Result<Vec<_>, FileError>>()?;
    let mut backups: Vec<_> = paths.into_iter().filter_map(|path| BackupName::of(selection, path)).collect();
    backups.sort_unstable();
    Ok(backups)
}

/// The newest backup in the folder `directory` and the one before it, or `directory` itself if it is a file.
pub fn newest_backups(directory: &Path) -> Result<(PathBuf, Option<PathBuf>), MoveError> {
    if directory.is_file() {
        return Ok((directory.to_owned(), None));
    }
    let none = io::Error::new(io::ErrorKind::NotFound, "there is no backup in it");
    let none = FileError::Io { path: directory.to_owned(), action: "read", reason: none };
    let mut backups = backups_in(directory, Selection::All)?;
    let newest = backups.pop().ok_or(none)?.path;
    Ok((newest, backups.pop().map(|before| before.path)))
}

/// The copies of the ledger that lie beside `backup`: that of its name, one with the ledger's own name `ledger`, and the newest of
/// the ledger alone.
pub fn ledgers_beside(backup: &Path, ledger: &str) -> Result<Vec<PathBuf>, FileError> {
    let folder = folder_of(backup);
    let alone = backups_in(folder, Selection::Deletions)?.pop().map(|newest| newest.path);
    let named = [BackupName::ledger_of(backup), folder.join(ledger)];
    Ok(named.into_iter().filter(|path| path.is_file()).chain(alone).collect())
}

/// Notes beside the backup at `path` whether it lacks records, which is so in `summary`, and returns that: also after a restart it is
/// no success.
pub fn note_lack(path: &Path, summary: &Summary) -> Result<bool, FileError> {
    let lacks = summary.unreadable > 0;
    if lacks {
        let path = BackupName::lacks_records(path);
        let note = format!("{} cannot be read: see handbill check\n", counted(summary.unreadable, "record"));
        std::fs::write(&path, note).map_err(|reason| FileError::Io { path, action: "written", reason })?;
    }
    Ok(lacks)
}

/// Removes all but the `keep` newest backups of what `selection` names, and what lies beside them. Those of the future, which a wrong
/// clock has made, neither count nor go.
pub fn keep_newest(directory: &Path, selection: Selection, now: UnixMillis, keep: usize) -> Result<(), FileError> {
    let mut all = backups_in(directory, selection)?;
    all.retain(|backup| backup.began_at <= now);
    all[..all.len().saturating_sub(keep)].iter().try_for_each(|old| remove_backup(&old.path))
}

/// Removes the backup at `path` and what lies beside it.
pub fn remove_backup(path: &Path) -> Result<(), FileError> {
    for path in [path.to_owned(), BackupName::ledger_of(path), BackupName::lacks_records(path)] {
        remove_if_there(&path).map_err(|reason| FileError::Io { path, action: "removed", reason })?;
    }
    Ok(())
}

pub fn new_backup_in(directory: &Path, selection: Selection, now: UnixMillis) -> PathBuf {
    let (before, after) = BackupName::around(selection);
    let time = now.to_string().replace([':', '.'], "-");
    directory.join(format!("{before}{time}{after}"))
}
