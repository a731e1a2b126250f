//! The ledger of deletions: every tombstone once more, in a file of its own beside the database.
//!
//! A backup of the database is older than the deletions after it. Whoever restores a backup replays the ledger, and so no
//! deleted page returns. The ledger is therefore not part of a backup, and never goes back in time.
//!
//! # Why no deletion is missing
//!
//! The transaction that deletes a page also puts its slug into the table [`UNLOGGED`]. After the commit the writer adds
//! the tombstone to the ledger, syncs it, and only then answers the caller. A later transaction removes the slug from the
//! table. After a crash in between, the next start finds the slug in the table and adds it, perhaps for the second time,
//! which changes nothing. If the ledger cannot be written, the deletion still counts, and each later commit tries again.
//! If the ledger is lost, the next start writes a new one from all tombstones.

use std::io;

use redb::{Database, ReadableDatabase, ReadableTable, TableError};
use tracing::error;

use super::record;
use super::storage::LedgerFile;
use super::tables::PAGES;
use super::unlogged::UNLOGGED;
use crate::domain::archive::ledger_line;
use crate::domain::page::Tombstone;
use crate::domain::slug::Slug;
use crate::ports::page_store::Record;

/// The writer's view of the ledger.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    file: Option<Box<dyn LedgerFile>>,
    /// Whether the last attempt to write failed, so that the log says it once.
    is_failing: bool,
    /// Deletions that are committed and not in the file.
    waiting: Vec<Tombstone>,
    /// Deletions that are in the file and still in [`UNLOGGED`].
    logged: Vec<Slug>,
}

impl Ledger {
    /// Reads from `database` what is not in `file` yet, and adds it. Without a file, nothing waits.
    pub(super) fn catch_up(
        &mut self,
        file: io::Result<Option<Box<dyn LedgerFile>>>,
        database: &Database,
    ) -> Result<(), redb::Error> {
        self.logged.clear();
        self.waiting.clear();
        match file {
            Ok(Some(file)) => {
                self.waiting = if file.is_new() { all_tombstones(database)? } else { unlogged(database)? };
                self.file = Some(file);
                self.write();
            }
            Ok(None) => self.file = None,
            Err(reason) => {
                self.waiting = unlogged(database)?;
                self.failed(&reason);
            }
        }
        Ok(())
    }

    /// Adds deletions that were just committed, and earlier ones that could not be written.
    pub(super) fn add(
        &mut self,
        deleted: impl Iterator<Item = Tombstone>,
        reopen: impl FnOnce() -> io::Result<Option<Box<dyn LedgerFile>>>,
    ) {
        self.waiting.extend(deleted);
        if self.waiting.is_empty() {
            return;
        }
        if self.file.is_none() {
            match reopen() {
                Ok(file) => self.file = file,
                Err(reason) => return self.failed(&reason),
            }
        }
        self.write();
    }

    /// Deletions that the next transaction removes from [`UNLOGGED`].
    pub(super) fn logged(&self) -> &[Slug] {
        &self.logged
    }

    /// The transaction with [`Ledger::logged`] is committed.
    pub(super) fn forget_logged(&mut self) {
        self.logged.clear();
    }

    fn write(&mut self) {
        let lines: String = self.waiting.iter().map(ledger_line).collect();
        // A store in memory has no ledger.
        let written = self.file.as_mut().map_or(Ok(()), |file| file.append(lines.as_bytes()));
        match written {
            Ok(()) => {
                self.is_failing = false;
                self.logged.extend(self.waiting.drain(..).map(|tombstone| tombstone.slug));
            }
            Err(reason) => self.failed(&reason),
        }
    }

    fn failed(&mut self, reason: &io::Error) {
        if !self.is_failing {
            error!(%reason, "the ledger of deletions cannot be written; each later change tries again");
        }
        self.is_failing = true;
    }
}

fn unlogged(database: &Database) -> Result<Vec<Tombstone>, redb::Error> {
    let transaction = database.begin_read()?;
    let unlogged = match transaction.open_table(UNLOGGED) {
        Ok(unlogged) => unlogged,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let pages = transaction.open_table(PAGES)?;
    let mut tombstones = Vec::new();
    for entry in unlogged.iter()? {
        let (slug, ()) = entry.map(|(slug, _)| (slug, ()))?;
        let value = pages.get(slug.value())?;
        tombstones.extend(value.and_then(|value| tombstone(slug.value(), value.value())));
    }
    Ok(tombstones)
}

fn all_tombstones(database: &Database) -> Result<Vec<Tombstone>, redb::Error> {
    let pages = database.begin_read()?.open_table(PAGES)?;
    let mut tombstones = Vec::new();
    for entry in pages.iter()? {
        let (slug, value) = entry?;
        tombstones.extend(tombstone(slug.value(), value.value()));
    }
    Ok(tombstones)
}

/// The tombstone of these bytes. A record that cannot be read is no tombstone: `handbill check` finds it.
fn tombstone(slug: &str, bytes: &[u8]) -> Option<Tombstone> {
    match record::decode(Slug::parse(slug).ok()?, bytes) {
        Ok(Record::Deleted(tombstone)) => Some(tombstone),
        Ok(Record::Active(_)) | Err(_) => None,
    }
}
