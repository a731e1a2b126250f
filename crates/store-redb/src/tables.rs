//! The database in the file: its tables and format, lookups in it and changes to it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::{Builder, Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use crate::domain::archive::Entry;
use crate::domain::page::{Page, PageHead, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;
use crate::ports::page_store::{Lookup, Record, StoreError};

use super::creates_switch;
use super::error::OpenError;
use super::expected::Expected;
use super::panics::caught;
use super::record::{self, RecordError};
use super::reserve;
use super::slug_secret;
use super::storage::Boxed;
use super::tombstone_count;
use super::unlogged;
use super::visibility;

/// The records, by slug.
pub(super) const PAGES: TableDefinition<&str, &[u8]> = TableDefinition::new("pages");

/// A hash of every slug in [`PAGES`]. If a lookup in `PAGES` finds nothing, the hash shows whether the slug was never
/// used or its key is damaged. Without the hash, a page with a damaged key would seem absent and its slug would be
/// free.
pub(super) const SLUGS: TableDefinition<u64, ()> = TableDefinition::new("slugs");

/// Facts about the whole file, under [`FORMAT_KEY`] and [`BATCH_KEY`].
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

/// The version of the tables and their meaning. Records have versions of their own.
const FORMAT_KEY: &str = "format";

/// The only format that this version of Handbill writes and reads.
pub(super) const FORMAT: u64 = 6;

/// The number of the last committed batch.
const BATCH_KEY: &str = "batch";

#[derive(Debug)]
pub(super) enum Operation {
    Insert(Arc<Page>),
    /// Replaces the page by `next` if the page is as `expected`.
    CompareAndSet {
        expected: Expected,
        next: Record,
    },
    /// Stores the tombstone of a page that this store never had, if its slug is free.
    InsertTombstone(Tombstone),
    /// Notes what operators did to a page that may not be here yet, unless it is deleted.
    KeepVisibility(Visibility),
    /// Pauses or resumes creates.
    Pause(bool),
}

impl Operation {
    /// The slug of the page that this operation may change. An insert changes no page.
    pub(super) fn changed(&self) -> Option<&Slug> {
        match self {
            Self::Insert(_) | Self::InsertTombstone(_) | Self::KeepVisibility(_) | Self::Pause(_) => None,
            Self::CompareAndSet { next, .. } => Some(next.slug()),
        }
    }

    /// Whether the owner of a page deletes it.
    pub(super) fn is_by_owner(&self) -> bool {
        matches!(self, Self::CompareAndSet { next: Record::Deleted(Tombstone { takedown: None, .. }), .. })
    }

    /// Whether the write may use the room that is kept for deletions: a pause ends an abuse wave that fills the volume.
    pub(super) fn may_use_reserve(&self) -> bool {
        matches!(self, Self::CompareAndSet { next: Record::Deleted(_), .. } | Self::Pause(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The write's condition does not hold; nothing was changed.
    Refused,
}

pub(super) type Outcomes = Vec<Result<Outcome, StoreError>>;

pub(super) enum Applied {
    /// The answers, and what the ledger must have before they are given.
    Committed(Outcomes, Vec<Entry>),
    /// No operation's condition holds, so there was nothing to commit.
    NothingToCommit(Outcomes),
    /// The batch failed before its commit; nothing was changed.
    Failed(redb::Error),
    /// The commit failed. The batch may still be stored, as a whole; if it is, these are the answers.
    Unknown(redb::Error, Outcomes),
}

/// Opens the database on `backend` with `cache_bytes` of memory for its pages, and creates the tables if there are none.
/// `path` is used only in errors.
pub(super) fn open(path: &Path, backend: Boxed, cache_bytes: usize) -> Result<Database, OpenError> {
    caught(|| open_or_panic(path, backend, cache_bytes))
        .unwrap_or_else(|panicked| Err(OpenError::panicked(path, &panicked)))
}

/// Does the same as `open`, but does not catch the panics of `redb` on some damaged files.
fn open_or_panic(path: &Path, backend: Boxed, cache_bytes: usize) -> Result<Database, OpenError> {
    let damaged = |reason: &str| OpenError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    let database = Builder::new()
        // `redb` counts 4096 bytes for a page, for which the allocator takes 5120: the page has a header of 16 bytes.
        .set_cache_size(cache_bytes / 5 * 4)
        .create_with_backend(backend)
        .map_err(|error| OpenError::database(path, error))?;
    match format(&database).map_err(|error| OpenError::database(path, error))? {
        Format::Known => Ok(database),
        Format::Unknown(found) => Err(OpenError::UnknownFormat { path: path.to_owned(), found, known: FORMAT }),
        Format::Foreign => Err(damaged("its tables are not Handbill's")),
        Format::Empty => {
            create_tables(&database).map_err(|error| OpenError::database(path, error))?;
            Ok(database)
        }
    }
}

enum Format {
    Empty,
    Known,
    Unknown(u64),
    Foreign,
}

fn format(database: &Database) -> Result<Format, redb::Error> {
    let transaction = database.begin_read()?;
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => {
            let empty = transaction.list_tables()?.next().is_none();
            return Ok(if empty { Format::Empty } else { Format::Foreign });
        }
        Err(TableError::TableTypeMismatch { .. } | TableError::TypeDefinitionChanged { .. }) => {
            return Ok(Format::Foreign);
        }
        Err(error) => return Err(error.into()),
    };
    let found = meta.get(FORMAT_KEY)?.map(|found| found.value());
    Ok(match found {
        Some(FORMAT) => Format::Known,
        Some(found) => Format::Unknown(found),
        None => Format::Foreign,
    })
}

fn create_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = begin_write(database)?;
    transaction.open_table(PAGES)?;
    transaction.open_table(SLUGS)?;
    slug_secret::create(&transaction)?;
    transaction.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
    Ok(transaction.commit()?)
}

pub(super) fn begin_write(database: &Database) -> Result<redb::WriteTransaction, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_two_phase_commit(true);
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// The number of the last batch in the file; 0 before the first.
pub(super) fn last_batch(database: &Database) -> Result<u64, redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    Ok(meta.get(BATCH_KEY)?.map_or(0, |batch| batch.value()))
}

pub(super) fn lookup(database: &Database, slug: &Slug) -> Result<Result<Lookup, StoreError>, redb::Error> {
    read(database, slug, Lookup::Absent, |bytes| decode(slug, bytes))
}

/// The page or tombstone under `slug`; `None` if its text takes more than `max_bytes`.
pub(super) fn lookup_up_to(
    max_bytes: usize,
    database: &Database,
    slug: &Slug,
) -> Result<Result<Option<Lookup>, StoreError>, redb::Error> {
    read(database, slug, Some(Lookup::Absent), |bytes| {
        Ok(record::decode_up_to(max_bytes, slug, bytes)?.map(Lookup::from))
    })
}

fn decode(slug: &Slug, bytes: &[u8]) -> Result<Lookup, RecordError> {
    Ok(record::decode(slug, bytes)?.into())
}

/// The page under `slug`, hidden or not.
pub(super) fn page(database: &Database, slug: &Slug) -> Result<Result<Option<Arc<Page>>, StoreError>, redb::Error> {
    read(database, slug, None, |bytes| {
        Ok(match record::decode(slug, bytes)? {
            Record::Active(page) => Some(page),
            Record::Deleted(_) => None,
        })
    })
}

pub(super) fn head(database: &Database, slug: &Slug) -> Result<Result<Lookup<PageHead>, StoreError>, redb::Error> {
    read(database, slug, Lookup::Absent, |bytes| record::decode_head(slug, bytes))
}

/// Decodes the record under `slug`; `absent` if the slug was never used.
fn read<T>(
    database: &Database,
    slug: &Slug,
    absent: T,
    decode: impl FnOnce(&[u8]) -> Result<T, RecordError>,
) -> Result<Result<T, StoreError>, redb::Error> {
    let transaction = database.begin_read()?;
    let pages = transaction.open_table(PAGES)?;
    let Some(bytes) = pages.get(slug.as_str())? else {
        let is_used = transaction.open_table(SLUGS)?.get(hash(slug))?.is_some();
        return Ok(if is_used { Err(StoreError::Unreadable(HiddenError.into())) } else { Ok(absent) });
    };
    Ok(decode(bytes.value()).map_err(|error| StoreError::Unreadable(error.into())))
}

/// Applies `operations` in order and commits them as batch number `batch`. Each operation sees the effects of those
/// before it. The lines of `logged` are in the ledger.
pub(super) fn apply<'a>(
    database: &Database,
    batch: u64,
    operations: impl Iterator<Item = &'a Operation>,
    logged: &[String],
) -> Applied {
    let transaction = match begin_write(database) {
        Ok(transaction) => transaction,
        Err(error) => return Applied::Failed(error),
    };
    let (outcomes, lines) = match stage(&transaction, batch, operations, logged) {
        Ok(staged) => staged,
        Err(error) => return Applied::Failed(error),
    };
    if !outcomes.iter().any(|outcome| matches!(outcome, Ok(Outcome::Done))) {
        return match transaction.abort() {
            Ok(()) => Applied::NothingToCommit(outcomes),
            Err(error) => Applied::Failed(error.into()),
        };
    }
    match transaction.commit() {
        Ok(()) => Applied::Committed(outcomes, lines),
        Err(error) => Applied::Unknown(error.into(), outcomes),
    }
}

fn stage<'a>(
    transaction: &redb::WriteTransaction,
    batch: u64,
    operations: impl Iterator<Item = &'a Operation>,
    logged: &[String],
) -> Result<(Outcomes, Vec<Entry>), redb::Error> {
    let (mut pages, mut slugs) = (transaction.open_table(PAGES)?, transaction.open_table(SLUGS)?);
    let mut lines = Vec::new();
    let outcomes: Outcomes = operations
        .map(|operation| stage_one(transaction, &mut pages, &mut slugs, operation, &mut lines))
        .collect::<Result<_, _>>()?;
    let mut meta = transaction.open_table(META)?;
    let tombstones = lines.iter().filter(|line| matches!(line, Entry::Tombstone(_))).count();
    tombstone_count::add(&mut meta, &pages, tombstones as u64)?;
    meta.insert(BATCH_KEY, batch)?;
    unlogged::stage(transaction, logged, &lines)?;
    Ok((outcomes, lines))
}

/// Does `operation`, and adds to `lines` what the ledger must have of it.
fn stage_one(
    transaction: &redb::WriteTransaction,
    pages: &mut Table<'_, &'static str, &'static [u8]>,
    slugs: &mut Table<'_, u64, ()>,
    operation: &Operation,
    lines: &mut Vec<Entry>,
) -> Result<Result<Outcome, StoreError>, redb::Error> {
    let mut was_hidden = false;
    let (applies, next) = match operation {
        Operation::Insert(page) => {
            let is_used = pages.get(page.head.slug.as_str())?.is_some() || slugs.get(hash(&page.head.slug))?.is_some();
            (Ok(!is_used), Record::Active(Arc::clone(page)))
        }
        Operation::InsertTombstone(tombstone) => {
            let slug = &tombstone.slug;
            let is_used = pages.get(slug.as_str())?.is_some() || slugs.get(hash(slug))?.is_some();
            (Ok(!is_used), Record::Deleted(tombstone.clone()))
        }
        Operation::CompareAndSet { expected, next } => {
            let held = match (pages.get(next.slug().as_str())?, expected) {
                (Some(bytes), _) => expected.holds(next.slug(), bytes.value()),
                // Its key is damaged.
                (None, Expected::Unreadable) => Ok((slugs.get(hash(next.slug()))?.is_some(), true)),
                (None, _) => Ok((false, false)),
            };
            was_hidden = matches!(held, Ok((_, true)));
            (held.map(|(holds, _)| holds), next.clone())
        }
        Operation::KeepVisibility(visibility) => {
            let record = pages.get(visibility.slug.as_str())?;
            let head = record.map(|bytes| record::decode_head(&visibility.slug, bytes.value()));
            let is_deleted = matches!(head, Some(Ok(Lookup::Deleted(_))));
            if is_deleted || !visibility::keep(transaction, visibility)? {
                return Ok(Ok(Outcome::Refused));
            }
            lines.push(Entry::Visibility(visibility.clone()));
            return Ok(Ok(Outcome::Done));
        }
        Operation::Pause(paused) => {
            creates_switch::set(transaction, *paused)?;
            return Ok(Ok(Outcome::Done));
        }
    };
    match applies {
        Ok(true) => {}
        Ok(false) => return Ok(Ok(Outcome::Refused)),
        Err(error) => return Ok(Err(StoreError::Unreadable(error.into()))),
    }
    let bytes = match record::encode(&next) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(StoreError::Unavailable(error.into()))),
    };
    match &next {
        Record::Active(page) if was_hidden || page.head.hidden.is_some() => {
            let visibility = page.head.visibility();
            if visibility::keep(transaction, &visibility)? {
                lines.push(Entry::Visibility(visibility));
            }
        }
        Record::Active(_) => {}
        Record::Deleted(tombstone) => {
            if was_hidden {
                visibility::forget(transaction, next.slug())?;
            }
            lines.push(Entry::Tombstone(tombstone.clone()));
        }
    }
    pages.insert(next.slug().as_str(), bytes.as_slice())?;
    if let Operation::Insert(_) | Operation::InsertTombstone(_) = operation {
        slugs.insert(hash(next.slug()), ())?;
    }
    Ok(Ok(Outcome::Done))
}

pub(super) fn hash(slug: &Slug) -> u64 {
    xxh3_64(slug.as_str().as_bytes())
}

/// The slug was used, but there is no record under it.
#[derive(Debug, Error)]
#[error("the key of the record is damaged")]
struct HiddenError;

/// Whether `error` means that the volume is full.
pub(super) fn is_about_room(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Io(error) if reserve::is_full(error))
}

/// Whether reopening the file may help after `error`, because the bytes themselves are not at fault.
pub(super) fn is_about_the_disk(error: &redb::Error) -> bool {
    match error {
        redb::Error::Io(error) => error.kind() != io::ErrorKind::InvalidData,
        redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_) => true,
        _ => false,
    }
}

/// Whether `error`, from a file that was just reopened, means that the bytes themselves are at fault.
pub(super) fn is_damage(error: &redb::Error) -> bool {
    match error {
        // A damaged page can point beyond the end of the file.
        redb::Error::Io(error) => matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof),
        other => !is_about_the_disk(other),
    }
}
