//! A copy of a cluster's ledger that goes on from the newest copy in its folder: the cluster is asked only for what is new. The copy
//! has everything all the same, so a restore needs no other, and older ones can be removed at any time.
//!
//! It goes on only from a whole copy of the same keyspace. After a week the cluster is asked for everything again: so a copy that lacks
//! something, whatever the reason, does not hand that on for ever.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::export::generator;
use super::file::{FileError, NewFile, Records};
use super::moving::backups_in;
use super::receive::Receiver;
use crate::operators::archive::export::Selection;
use handbill_core::domain::archive::{Encoder, Entry, LedgerCopy, Summary};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_scan::ScanBatch;
use handbill_core::ports::page_store::Record;

/// How long copies go on from one that has read the whole ledger, in milliseconds. The cluster keeps what is new for 30 days
/// (`deletions_by_time`).
const READ_WHOLE_EVERY: i64 = 7 * 24 * 3_600_000;

/// Bytes that are written at a time.
const PIECE: usize = 1024 * 1024;

/// The newest copy in `folder`, if one of the keyspace `of` can go on from it at `now`.
pub fn newest_in(folder: &Path, of: &str, now: UnixMillis) -> Result<Option<(Records, LedgerCopy)>, FileError> {
    let newest = backups_in(folder, Selection::Deletions)?.pop();
    let Some(records) = newest.and_then(|newest| Records::open(&newest.path, None).ok()) else { return Ok(None) };
    // A copy from the future was made by a clock that was wrong, and what it lacks may be long ago.
    let is_past = records.header().created_at <= now;
    let goes_on =
        |ledger: &LedgerCopy| ledger.of == of && now.get() - ledger.read_whole_at.get() < READ_WHOLE_EVERY && is_past;
    let ledger = records.header().ledger.clone().filter(goes_on);
    Ok(ledger.map(|ledger| (records, ledger)))
}

/// A copy that is being written: first what is new, then all of the earlier copy that is not older.
pub struct NewCopy {
    path: PathBuf,
    file: NewFile,
    encoder: Encoder,
    lines: String,
    receiver: Receiver,
    /// The time of each new entry.
    new: HashMap<Slug, Option<UnixMillis>>,
}

impl NewCopy {
    pub fn begin(path: &Path, ledger: LedgerCopy, now: UnixMillis) -> Result<Self, FileError> {
        let (encoder, lines) = Encoder::begin_copy(now, generator(), ledger);
        let (file, receiver, new) = (NewFile::create(path)?, Receiver::default(), HashMap::new());
        Ok(Self { path: path.to_owned(), file, encoder, lines, receiver, new })
    }

    /// Adds new entries. Returns whether all of them could be read.
    pub fn add(&mut self, batch: ScanBatch) -> Result<bool, FileError> {
        let deletions = batch.records.into_iter().map(|record| match record {
            Ok(Record::Deleted(tombstone)) => Some(Entry::Tombstone(tombstone)),
            Ok(Record::Active(_)) | Err(_) => None,
        });
        let turned = batch.visibilities.into_iter().map(|visibility| Some(Entry::Visibility(visibility)));
        for entry in deletions.chain(turned) {
            let Some(entry) = entry else { return Ok(false) };
            self.write(&entry)?;
            self.new.insert(entry.slug().clone(), entry.acted_at());
        }
        Ok(true)
    }

    /// Adds what `earlier` has, and puts the file on disk. `None`, and no file, if that is not whole.
    pub fn end(mut self, mut earlier: Records) -> Result<Option<Summary>, FileError> {
        for entry in earlier.by_ref() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    eprintln!("handbill: {error}");
                    return Ok(None);
                }
            };
            if self.new.get(entry.slug()).is_none_or(|&new| new < entry.acted_at()) {
                self.write(&entry)?;
            }
        }
        if earlier.summary().is_none_or(|summary| summary.unreadable > 0) {
            return Ok(None);
        }
        self.flush()?;
        let Self { path, mut file, encoder, mut receiver, .. } = self;
        let end = encoder.end();
        let refused = |reason| FileError::Refused { path, reason };
        let summary = receiver.take(end.as_bytes()).and_then(|()| receiver.end()).map_err(refused)?;
        file.write(end.as_bytes())?;
        file.finish()?;
        Ok(Some(summary))
    }

    fn write(&mut self, entry: &Entry) -> Result<(), FileError> {
        self.lines.push_str(&self.encoder.entry(entry));
        if self.lines.len() > PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), FileError> {
        let taken = self.receiver.take(self.lines.as_bytes());
        taken.map_err(|reason| FileError::Refused { path: self.path.clone(), reason })?;
        self.file.write(self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
    }
}
