//! Whole exports and imports over an open store: which files, and how far they are.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::export::{self, Piece, Selection};
use super::file::{FileError, NewFile, Records, verify};
use super::import::{Counts, ImportError, Importer};
use super::receive::Receiver;
use handbill_core::domain::archive::{ArchiveError, Entry, Summary};
use handbill_core::domain::counted::counted;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_scan::PageScan;
use handbill_core::ports::page_store::StoreError;
use handbill_core::ports::renderer::RenderError;

/// Records that are imported at the same time: enough to share the store's commits, and few enough to leave readers
/// their share.
const IMPORTS_AT_ONCE: usize = 32;

/// How often the place of an export is written down: what is read since is read again by the next attempt.
const KEPT_EVERY: Duration = Duration::from_secs(10);

/// Gets the number of records that are done, and about how many there are.
pub type Progress<'a> = &'a dyn Fn(u64, Option<u64>);

/// The place that an export goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    File(PathBuf),
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
    let mut file = match to {
        Destination::File(path) => Some(NewFile::create(path)?),
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
    let mut archive = std::pin::pin!(export::archive(store, selection, now, earlier));
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
pub fn verify_all(files: &[PathBuf], progress: Progress<'_>) -> Result<u64, MoveError> {
    let mut records = 0;
    for file in files {
        let summary = verify(file, |count| progress(count, None))?;
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
    expected: u64,
    progress: Progress<'_>,
) -> Result<Counts, MoveError> {
    let mut counts = Counts::default();
    for file in files {
        store_records(importer, Records::open(file)?, &mut counts, &|done| progress(done, Some(expected))).await?;
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
