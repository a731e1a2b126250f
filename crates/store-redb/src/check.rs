//! Reads everything in a data directory and says what is wrong with it. Nothing is changed.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableError};

use super::data_dir::DATABASE_FILE;
use super::error::OpenError;
use super::ledger_file::{LEDGER_FILE, read_ledger};
use super::overlay::Overlay;
use super::panics::caught;
use super::record;
use super::remains::remains;
use super::storage::{Boxed, Storage, StoreMemory};
use super::store::RedbStore;
use super::tables::{self, PAGES, SLUGS, hash};
use super::unlogged::UNLOGGED;
use super::upkeep::existing;
use super::visibility;
use crate::domain::archive::{Decoded, Entry};
use crate::domain::counted::counted;
use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;
use crate::ports::page_store::Record;

/// Faults that are described. Others are only counted.
const MAX_DESCRIBED: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub pages: u64,
    pub tombstones: u64,
    /// Deletions in the ledger, however often it has them.
    pub ledger: u64,
    /// The first faults, each in one line.
    pub faults: Vec<String>,
    pub fault_count: u64,
}

impl Checked {
    fn fault(&mut self, fault: String) {
        self.fault_count += 1;
        if self.faults.len() < MAX_DESCRIBED {
            self.faults.push(fault);
        }
    }
}

/// Checks the store in `data_dir`, which no process may use. `progress` gets the number of records so far, and of all.
///
/// The file's pages are verified against the checksums of `redb`, and each record against its own. The records and the
/// second table must name the same slugs, and each tombstone must be in the ledger.
///
/// An error means that the directory cannot be checked; whatever is wrong in it is in [`Checked`].
pub fn check(data_dir: &Path, progress: &dyn Fn(u64, Option<u64>)) -> Result<Checked, OpenError> {
    let path = data_dir.join(DATABASE_FILE);
    let mut checked = Checked::default();
    let is_there = RedbStore::exists(data_dir);
    if let (false, Some(found)) = (is_there, remains(data_dir).map_err(|reason| OpenError::io(data_dir, reason))?) {
        checked.fault(OpenError::Lost { path: data_dir.to_owned(), found }.to_string());
        return Ok(checked);
    }
    let directory = existing(data_dir)?;
    // `redb` writes when it opens and verifies a file. With the overlay, these writes stay in memory.
    let backend = directory.read_only().and_then(Overlay::of).map_err(|reason| OpenError::io(&path, reason))?;
    match tables::open(&path, Boxed::over(backend), StoreMemory::OF_COMMANDS.cache) {
        Ok(mut database) => {
            let verified = caught(|| database.check_integrity());
            match verified {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => checked.fault("the file's own structures do not agree with each other".to_owned()),
                Ok(Err(error)) => checked.fault(format!("the file does not match its checksums: {error}")),
                Err(panicked) => checked.fault(format!("the file does not match its checksums: {panicked}")),
            }
            let mut known = Known::default();
            let read = caught(|| records(&database, &mut checked, &mut known, progress));
            match read {
                Ok(Ok(())) => {}
                Ok(Err(error)) => checked.fault(format!("the records cannot be read to the end: {error}")),
                Err(panicked) => checked.fault(format!("the records cannot be read to the end: {panicked}")),
            }
            ledger(data_dir, &mut checked, &known);
            // Closing a damaged database may panic as well.
            let _ = caught(|| drop(database));
        }
        Err(error @ (OpenError::Damaged { .. } | OpenError::UnknownFormat { .. })) => {
            checked.fault(error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(checked)
}

fn records(
    database: &Database,
    checked: &mut Checked,
    known: &mut Known,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<(), redb::Error> {
    let read = database.begin_read()?;
    let pages = read.open_table(PAGES)?;
    for noted in visibility::in_range(&read, visibility::ALL)? {
        match noted {
            Ok(noted) => drop(known.visibility.insert(noted.slug.to_string(), noted)),
            Err(slug) => checked.fault(format!("{slug}: whether operators have hidden it cannot be read")),
        }
    }
    let (mut done, all) = (0, redb::ReadableTableMetadata::len(&pages)?);
    let mut hashes = HashSet::new();
    for entry in pages.iter()? {
        let (slug, value) = entry?;
        done += 1;
        progress(done, Some(all));
        let Ok(slug) = Slug::parse(slug.value()) else {
            checked.fault(format!("the key {:?} is not a slug", slug.value()));
            continue;
        };
        hashes.insert(hash(&slug));
        match record::decode(&slug, value.value()) {
            Ok(Record::Active(page)) => {
                checked.pages += 1;
                let noted = known.visibility.get(slug.as_str());
                if page.head.hidden.is_some() && noted.is_none() {
                    checked.fault(format!("{slug}: it is hidden, and nothing says that operators did it"));
                }
            }
            Ok(Record::Deleted(_)) => {
                checked.tombstones += 1;
                known.tombstones.insert(slug.to_string());
            }
            Err(error) => checked.fault(format!("{slug}: {error}")),
        }
    }
    if done != all {
        checked.fault(format!("the file says that it has {all} records, and has {done}"));
    }
    let mut named = HashSet::new();
    for entry in read.open_table(SLUGS)?.iter()? {
        named.insert(entry?.0.value());
    }
    let (lost, unnamed) = (named.difference(&hashes).count(), hashes.difference(&named).count());
    if lost > 0 {
        checked.fault(format!("the records of {} are lost", counted(lost, "slug")));
    }
    if unnamed > 0 {
        checked.fault(format!("the second table lacks {}", counted(unnamed, "record")));
    }
    match read.open_table(UNLOGGED) {
        Ok(unlogged) => {
            for entry in unlogged.iter()? {
                known.unlogged.insert(entry?.0.value().to_owned());
            }
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The entries of the database that the ledger must have.
#[derive(Default)]
struct Known {
    /// The slugs of tombstones.
    tombstones: HashSet<String>,
    /// The last acts of operators, by slug.
    visibility: HashMap<String, Visibility>,
    /// The keys of lines that get into the ledger when the store is opened.
    unlogged: HashSet<String>,
}

/// Checks the ledger in `data_dir`, which must have what is `known` and nothing else. A ledger that is missing is no fault: the
/// next start writes it.
fn ledger(data_dir: &Path, checked: &mut Checked, known: &Known) {
    if !data_dir.join(LEDGER_FILE).exists() {
        return;
    }
    let (mut named, mut noted) = (HashSet::new(), HashMap::<String, Visibility>::new());
    let read = read_ledger(data_dir, |line| match line {
        Ok(Decoded::Entry(Entry::Tombstone(tombstone))) => {
            named.insert(tombstone.slug.to_string());
        }
        Ok(Decoded::Entry(Entry::Visibility(visibility))) => {
            let slug = visibility.slug.to_string();
            if noted.get(&slug).is_none_or(|before| before.at < visibility.at) {
                noted.insert(slug, visibility);
            }
        }
        Ok(_) => {}
        Err(error) => checked.fault(format!("the ledger of deletions: {error}")),
    });
    if let Err(error) = read {
        return checked.fault(format!("the ledger cannot be read: {error}"));
    }
    // A start adds what it cannot know to be there, so the ledger may have a deletion twice.
    checked.ledger = named.len() as u64;
    let missing = known.tombstones.difference(&named).filter(|slug| !known.unlogged.contains(*slug)).count();
    if missing > 0 {
        checked.fault(format!("the ledger lacks {}", counted(missing, "deletion")));
    }
    let is_missing = |(slug, visibility): &(&String, &Visibility)| {
        noted.get(*slug) != Some(*visibility) && !known.unlogged.contains(*slug)
    };
    let missing = known.visibility.iter().filter(is_missing).count();
    if missing > 0 {
        checked.fault(format!("the ledger lacks the last hiding or showing of {}", counted(missing, "page")));
    }
    let is_foreign = |slug: &&String| !known.visibility.contains_key(*slug) && !known.tombstones.contains(*slug);
    let foreign = named.difference(&known.tombstones).count() + noted.keys().filter(is_foreign).count();
    if foreign > 0 {
        checked.fault(format!(
            "the database lacks {} of the ledger: it is not the one of this ledger",
            counted(foreign, "line")
        ));
    }
}
