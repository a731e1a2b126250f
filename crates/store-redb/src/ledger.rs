//! The ledger: every tombstone once more, and which pages operators have hidden and shown, in a file of its own beside the
//! database.
//!
//! A backup of the database is older than what was deleted or hidden after it. Whoever restores a backup replays the ledger, and
//! so no such page returns. The ledger is therefore not part of a backup, and never goes back in time.
//!
//! # Why nothing is missing
//!
//! The transaction that deletes, hides or shows a page also puts its slug into the table [`UNLOGGED`]. After the commit the writer
//! adds the entry to the ledger, syncs it, and only then answers the caller. A later transaction removes the slug from the
//! table. After a crash in between, the next start finds the slug in the table and adds its entry, perhaps for the second time,
//! which changes nothing. If the ledger cannot be written, what was done still counts, and each later commit tries again.
//! If the ledger is lost, the next start writes a new one from the database.

use std::io;

use redb::{Database, ReadableDatabase, ReadableTable, TableError};
use tracing::{error, info};

use super::ledger_file::LedgerFile;
use super::record;
use super::reserve;
use super::tables::PAGES;
use super::unlogged::UNLOGGED;
use super::visibility;
use crate::domain::archive::{Entry, entry_line};
use crate::domain::slug::Slug;
use crate::ports::page_store::Record;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    NoRoom,
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    file: Option<LedgerFile>,
    /// How the last attempt to write failed, if it did, so that the log says it once.
    failure: Option<Failure>,
    /// Lines of what is committed and not in the file.
    waiting: Vec<Entry>,
    /// Keys of lines that are in the file and still in [`UNLOGGED`].
    logged: Vec<String>,
}

impl Ledger {
    /// Reads from `database` what is not in `file` yet, and adds it. Without a file, nothing waits.
    pub(super) fn catch_up(
        &mut self,
        file: io::Result<Option<LedgerFile>>,
        database: &Database,
    ) -> Result<(), redb::Error> {
        self.logged.clear();
        self.waiting.clear();
        self.file = None;
        match file {
            Ok(Some(file)) => {
                let missing = if file.is_new() { all(database) } else { unlogged(database) };
                self.waiting = missing.inspect_err(|_| self.failure = Some(Failure::Other))?;
                self.file = Some(file);
                self.append();
            }
            Ok(None) => self.failure = None,
            Err(reason) => {
                self.failed(&reason);
                self.waiting = unlogged(database)?;
            }
        }
        Ok(())
    }

    /// Lines of what was just committed, to be written.
    pub(super) fn add(&mut self, lines: Vec<Entry>) {
        self.waiting.extend(lines);
    }

    /// Whether the file could not be opened.
    pub(super) fn is_unavailable(&self) -> bool {
        self.file.is_none() && self.failure.is_some()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.waiting.is_empty() && self.failure.is_none()
    }

    /// Whether entries wait because the volume is full.
    pub(super) fn lacks_room(&self) -> bool {
        self.failure == Some(Failure::NoRoom)
    }

    /// Keys that the next transaction removes from [`UNLOGGED`].
    pub(super) fn logged(&self) -> &[String] {
        &self.logged
    }

    /// The transaction with [`Ledger::logged`] is committed.
    pub(super) fn forget_logged(&mut self) {
        self.logged.clear();
    }

    /// Writes what waits, if the file is open.
    pub(super) fn write(&mut self) {
        if !self.is_unavailable() && !self.is_complete() {
            self.append();
        }
    }

    fn append(&mut self) {
        let lines: String = self.waiting.iter().map(entry_line).collect();
        // A store in memory has no ledger.
        let written = self.file.as_mut().map_or(Ok(()), |file| file.append(lines.as_bytes()));
        match written {
            Ok(()) => {
                if self.failure.take().is_some() {
                    info!("the ledger of deletions can be written again, and has what was waiting");
                }
                self.logged.extend(self.waiting.drain(..).map(|line| line.slug().to_string()));
            }
            Err(reason) => self.failed(&reason),
        }
    }

    fn failed(&mut self, reason: &io::Error) {
        if self.failure.is_none() {
            error!(%reason, "the ledger of deletions cannot be written; each later change tries again");
        }
        self.failure = Some(if reserve::is_full(reason) { Failure::NoRoom } else { Failure::Other });
    }
}

fn unlogged(database: &Database) -> Result<Vec<Entry>, redb::Error> {
    let transaction = database.begin_read()?;
    let unlogged = match transaction.open_table(UNLOGGED) {
        Ok(unlogged) => unlogged,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let pages = transaction.open_table(PAGES)?;
    let mut lines = Vec::new();
    for noted in unlogged.iter()? {
        let (key, _) = noted?;
        let key = key.value();
        let entry = match pages.get(key)?.and_then(|value| tombstone(key, value.value())) {
            Some(tombstone) => Some(tombstone),
            None => visibility::of(&transaction, key)?.map(Entry::Visibility),
        };
        lines.extend(entry);
    }
    Ok(lines)
}

/// Everything that belongs into the ledger of `database`.
fn all(database: &Database) -> Result<Vec<Entry>, redb::Error> {
    let transaction = database.begin_read()?;
    let pages = transaction.open_table(PAGES)?;
    let mut lines = Vec::new();
    for entry in pages.iter()? {
        let (slug, value) = entry?;
        lines.extend(tombstone(slug.value(), value.value()));
    }
    let noted = visibility::in_range(&transaction, visibility::ALL)?;
    lines.extend(noted.into_iter().flatten().map(Entry::Visibility));
    Ok(lines)
}

/// The tombstone of these bytes. A record that cannot be read is no tombstone: `handbill check` finds it.
fn tombstone(slug: &str, bytes: &[u8]) -> Option<Entry> {
    match record::decode(&Slug::parse(slug).ok()?, bytes) {
        Ok(Record::Deleted(tombstone)) => Some(Entry::Tombstone(tombstone)),
        Ok(Record::Active(_)) | Err(_) => None,
    }
}
