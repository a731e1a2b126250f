//! Writes the database into a new file that has only what is still there, and puts it in the old one's place.
//!
//! `redb`'s own compaction moves used parts of the file and leaves old bytes in the free ones. Here every record is
//! read, verified and written to an empty file, so nothing that was deleted or replaced can be in it. If the process
//! ends at any moment, the old file is still whole, or the new one is in its place.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use redb::{Database, Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableHandle, Value};

use super::data_dir::{COMPACTING_FILE, DATABASE_FILE, backend};
use super::error::OpenError;
use super::folders::{FileSystem, Folders, create_file};
use super::opening::open_for_reading;
use super::panics::caught;
use super::record;
use super::slug_secret::SECRET;
use super::storage::StoreMemory;
use super::tables::{self, META, PAGES, SLUGS};
use super::unlogged::UNLOGGED;
use super::upkeep::existing;
use super::visibility::VISIBILITY;
use crate::domain::slug::Slug;

/// The sizes of the file before and after, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    pub before: u64,
    pub after: u64,
}

/// Compacts the database in `data_dir`, which no process may use. `progress` gets the number of records so far, and of
/// all.
pub fn compact(data_dir: &Path, progress: &dyn Fn(u64, Option<u64>)) -> Result<Compacted, OpenError> {
    let directory = existing(data_dir)?;
    let (old, new) = (data_dir.join(DATABASE_FILE), data_dir.join(COMPACTING_FILE));
    let size = |path: &Path| fs::metadata(path).map(|file| file.len()).map_err(|reason| OpenError::io(path, reason));
    let before = size(&old)?;
    // `redb` writes when it opens a file, and one of another version must stay as it is.
    let from = open_for_reading(&directory)?;
    let copied = caught(|| copy(&from, &old, &new, progress))
        .unwrap_or_else(|panicked| Err(OpenError::panicked(&old, &panicked)));
    if let Err(error) = copied {
        // On a full disk the incomplete file would take the space that is left.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    drop(from);
    let after = size(&new)?;
    let replaced = fs::rename(&new, &old).and_then(|()| FileSystem.sync(data_dir));
    replaced.map_err(|reason| OpenError::io(&old, reason))?;
    Ok(Compacted { before, after })
}

fn copy(from: &Database, old: &Path, new: &Path, progress: &dyn Fn(u64, Option<u64>)) -> Result<(), OpenError> {
    let refused = |reason: io::Error| OpenError::io(new, reason);
    // Nothing is there: the remains of an interrupted compaction went when the directory was opened.
    let file = create_file(new).and_then(backend).map_err(refused)?;
    let mut to = tables::open(new, file.into(), StoreMemory::OF_COMMANDS.cache)?;
    let read = from.begin_read().map_err(|error| OpenError::database(old, error))?;
    copy_tables(&read, &to, old, new, progress)?;
    // The new file grows in large steps; this cuts off the end that is not used.
    to.compact().map_err(|error| OpenError::database(new, error))?;
    drop(to);
    File::open(new).and_then(|file| file.sync_all()).map_err(refused)
}

fn copy_tables(
    read: &ReadTransaction,
    to: &Database,
    old: &Path,
    new: &Path,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), OpenError> {
    let tables: Vec<_> = read.list_tables().map_err(|error| OpenError::database(old, error))?.collect();
    let known = [PAGES.name(), SLUGS.name(), META.name(), UNLOGGED.name(), SECRET.name(), VISIBILITY.name()];
    if let Some(unknown) = tables.iter().find(|table| !known.contains(&table.name())) {
        let reason = format!("it has a table {:?} that this Handbill does not know", unknown.name());
        return Err(OpenError::Damaged { path: old.to_owned(), reason });
    }
    let copied = (|| {
        let write = tables::begin_write(to)?;
        copy_table(read, &write, META, &mut |_, _| Ok(()))?;
        copy_table(read, &write, SLUGS, &mut |_, ()| Ok(()))?;
        copy_table(read, &write, SECRET, &mut |_, _| Ok(()))?;
        let has = |name| tables.iter().any(|table| table.name() == name);
        if has(UNLOGGED.name()) {
            copy_table(read, &write, UNLOGGED, &mut |_, ()| Ok(()))?;
        }
        if has(VISIBILITY.name()) {
            copy_table(read, &write, VISIBILITY, &mut |_, _| Ok(()))?;
        }
        let (mut done, all) = (0, redb::ReadableTableMetadata::len(&read.open_table(PAGES)?)?);
        copy_table(read, &write, PAGES, &mut |slug, value| {
            done += 1;
            progress(done, Some(all));
            let slug = Slug::parse(slug).map_err(|error| format!("the key {slug:?} is {error}"))?;
            record::decode(&slug, value).map(drop).map_err(|error| format!("the record of {slug}: {error}"))
        })?;
        write.commit()?;
        Ok(())
    })();
    copied.map_err(|error| match error {
        CopyError::Record(reason) => OpenError::Damaged { path: old.to_owned(), reason },
        CopyError::Database(error) => OpenError::database(new, error),
    })
}

enum CopyError {
    /// A record cannot be read. A new file without this record would have lost it.
    Record(String),
    Database(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for CopyError {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

/// Verifies an entry of a table; the error says what is wrong with it.
type Check<'c, K, V> = dyn FnMut(<K as Value>::SelfType<'_>, <V as Value>::SelfType<'_>) -> Result<(), String> + 'c;

fn copy_table<K: Key + 'static, V: Value + 'static>(
    read: &ReadTransaction,
    write: &redb::WriteTransaction,
    table: TableDefinition<K, V>,
    check: &mut Check<'_, K, V>,
) -> Result<(), CopyError> {
    let mut to = write.open_table(table)?;
    for entry in read.open_table(table)?.iter()? {
        let (key, value) = entry?;
        check(key.value(), value.value()).map_err(CopyError::Record)?;
        to.insert(key.value(), value.value())?;
    }
    Ok(())
}
