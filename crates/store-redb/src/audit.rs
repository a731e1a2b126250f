//! The list of what operators did, in a table of its own.
//!
//! An entry is a version byte, a checksum of 8 bytes and `postcard`, as a record is. The checksum covers the entry's
//! number, so an entry under another number does not match. The entry of a takedown is written in the transaction that
//! replaces the page by its tombstone, so neither exists without the other.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry as Slot};
use std::ops::RangeBounds;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

use crate::domain::audit::{AuditAction, AuditEntry, NumberedEntry};
use crate::domain::page::Tombstone;
use crate::domain::slug::Slug;
use crate::ports::page_store::StoreError;

/// The entries, by their numbers.
pub(super) const AUDIT: TableDefinition<u64, &[u8]> = TableDefinition::new("audit");

const VERSION: u8 = 1;

/// Size of the part before the entry itself, in bytes: version and checksum.
const HEAD_BYTES: usize = 9;

/// An entry that this version of Handbill cannot read.
#[derive(Debug, Error)]
enum EntryError {
    #[error("entry {number} of the audit has version {version}, this Handbill knows up to {VERSION}")]
    Newer { number: u64, version: u8 },
    /// These are not the bytes that were written under this number.
    #[error("entry {0} of the audit does not match its checksum")]
    Damaged(u64),
    #[error("an entry of the audit cannot be encoded: {0}")]
    Unencodable(#[from] postcard::Error),
}

pub(super) fn create_table(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(AUDIT)?;
    Ok(())
}

/// The entry of the takedown that left `tombstone`, if an operator did it.
pub(super) fn entry_of(tombstone: &Tombstone) -> Option<AuditEntry> {
    let takedown = tombstone.takedown.as_ref()?;
    Some(AuditEntry {
        at: tombstone.deleted_at,
        by: takedown.by.clone(),
        action: AuditAction::Takedown { slug: tombstone.slug.clone(), reason: takedown.reason },
    })
}

/// Appends `entry`, and returns it with its number.
pub(super) fn append(
    transaction: &WriteTransaction,
    entry: &AuditEntry,
) -> Result<Result<NumberedEntry, StoreError>, redb::Error> {
    let mut table = transaction.open_table(AUDIT)?;
    let number = table.last()?.map_or(0, |(number, _)| number.value()) + 1;
    Ok(match encode(number, entry) {
        Ok(bytes) => {
            table.insert(number, bytes.as_slice())?;
            Ok(NumberedEntry { number, entry: entry.clone() })
        }
        Err(error) => Err(StoreError::Unavailable(error.into())),
    })
}

/// The entries with numbers in `range`. Those that cannot be read are left out: whoever lists them learns of it.
pub(super) fn in_range(
    transaction: &ReadTransaction,
    range: impl RangeBounds<u64>,
) -> Result<Vec<NumberedEntry>, redb::Error> {
    let table = transaction.open_table(AUDIT)?;
    let mut entries = Vec::new();
    for found in table.range(range)? {
        let (number, bytes) = found?;
        let number = number.value();
        let entry = decode(number, bytes.value());
        entries.extend(entry.ok().map(|entry| NumberedEntry { number, entry }));
    }
    Ok(entries)
}

/// Makes the audit that of `ledgers`, with its numbers. Whatever has no number there follows it in the order of its time: an entry
/// whose number another one has, and takedowns that are in no ledger's audit.
pub(super) fn restore(transaction: &WriteTransaction, ledgers: Vec<NumberedEntry>) -> Result<(), redb::Error> {
    let mut audit = BTreeMap::<u64, AuditEntry>::new();
    let mut further = Vec::new();
    for NumberedEntry { number, entry, .. } in ledgers {
        match audit.entry(number) {
            Slot::Vacant(free) => drop(free.insert(entry)),
            Slot::Occupied(taken) if *taken.get() == entry => {}
            Slot::Occupied(_) => further.push(entry),
        }
    }
    let known: HashSet<_> = audit.values().chain(&further).filter_map(taken_down).cloned().collect();
    let mut table = transaction.open_table(AUDIT)?;
    let mut imported = Vec::new();
    for found in table.iter()? {
        let (number, bytes) = found?;
        imported.extend(decode(number.value(), bytes.value()).ok());
    }
    further.extend(imported.into_iter().filter(|entry| taken_down(entry).is_none_or(|slug| !known.contains(slug))));
    further.sort_by_key(|entry| entry.at);
    let last = audit.last_key_value().map_or(0, |(&number, _)| number);
    audit.extend((last + 1..).zip(further));
    table.retain(|_, _| false)?;
    for (number, entry) in audit {
        if let Ok(bytes) = encode(number, &entry) {
            table.insert(number, bytes.as_slice())?;
        }
    }
    Ok(())
}

pub(super) fn list(
    database: &Database,
    after: u64,
    limit: usize,
) -> Result<Result<Vec<NumberedEntry>, StoreError>, redb::Error> {
    let table = database.begin_read()?.open_table(AUDIT)?;
    let mut entries = Vec::new();
    for found in table.range(after.saturating_add(1)..)?.take(limit) {
        let (number, bytes) = found?;
        match decode(number.value(), bytes.value()) {
            Ok(entry) => entries.push(NumberedEntry { number: number.value(), entry }),
            Err(error) => return Ok(Err(StoreError::Unreadable(error.into()))),
        }
    }
    Ok(Ok(entries))
}

/// The page that was taken down, if it is that.
fn taken_down(entry: &AuditEntry) -> Option<&Slug> {
    match &entry.action {
        AuditAction::Takedown { slug, .. } => Some(slug),
        _ => None,
    }
}

fn encode(number: u64, entry: &AuditEntry) -> Result<Vec<u8>, EntryError> {
    let mut bytes = postcard::to_extend(entry, vec![VERSION; HEAD_BYTES])?;
    let checksum = checksum(number, &bytes[HEAD_BYTES..]);
    bytes[1..HEAD_BYTES].copy_from_slice(&checksum);
    Ok(bytes)
}

fn decode(number: u64, bytes: &[u8]) -> Result<AuditEntry, EntryError> {
    let (head, body) = bytes.split_at_checked(HEAD_BYTES).ok_or(EntryError::Damaged(number))?;
    if head[0] != VERSION {
        return Err(EntryError::Newer { number, version: head[0] });
    }
    if head[1..] != checksum(number, body) {
        return Err(EntryError::Damaged(number));
    }
    match postcard::take_from_bytes(body) {
        Ok((entry, [])) => Ok(entry),
        _ => Err(EntryError::Damaged(number)),
    }
}

fn checksum(number: u64, body: &[u8]) -> [u8; HEAD_BYTES - 1] {
    let mut hash = Xxh3::new();
    hash.update(&number.to_le_bytes());
    hash.update(&[VERSION]);
    hash.update(body);
    hash.digest().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::takedown::TakedownReason;
    use crate::domain::timestamp::UnixMillis;

    fn entry() -> AuditEntry {
        let slug = Slug::parse("a-page-22222222").unwrap();
        let action = AuditAction::Takedown { slug, reason: TakedownReason::Malware };
        AuditEntry { at: UnixMillis::new(5), by: "desk".to_owned(), action }
    }

    #[test]
    fn an_entry_decodes_under_its_own_number_alone() {
        let bytes = encode(7, &entry()).unwrap();
        assert_eq!(decode(7, &bytes).unwrap(), entry());
        assert!(matches!(decode(8, &bytes), Err(EntryError::Damaged(8))));
    }

    #[test]
    fn a_restore_takes_the_numbers_of_the_ledgers_and_loses_no_entry() {
        let taken_down = |slug: &str, at| AuditEntry {
            at: UnixMillis::new(at),
            action: AuditAction::Takedown { slug: Slug::parse(slug).unwrap(), reason: TakedownReason::Malware },
            ..entry()
        };
        let paused = |at| AuditEntry {
            at: UnixMillis::new(at),
            action: AuditAction::Creates { paused: true, hourly_budget: None },
            ..entry()
        };
        let numbered = |number, entry| NumberedEntry { number, entry };
        let database = Database::builder().create_with_backend(redb::backends::InMemoryBackend::new()).unwrap();
        let transaction = database.begin_write().unwrap();
        // As an import of the tombstones leaves it.
        for imported in [taken_down("late-22222222", 30), taken_down("first-22222222", 10)] {
            append(&transaction, &imported).unwrap().unwrap();
        }
        let ledgers = vec![
            numbered(1, paused(5)),
            numbered(3, taken_down("first-22222222", 10)),
            numbered(3, taken_down("first-22222222", 10)),
            numbered(3, paused(20)),
        ];
        restore(&transaction, ledgers).unwrap();
        transaction.commit().unwrap();
        let found = list(&database, 0, 10).unwrap().unwrap();
        let expected = [
            numbered(1, paused(5)),
            numbered(3, taken_down("first-22222222", 10)),
            numbered(4, paused(20)),
            numbered(5, taken_down("late-22222222", 30)),
        ];
        assert_eq!(found, expected, "number 2 is missing, and stays so");
    }

    #[test]
    fn any_flipped_bit_and_any_cut_of_an_entry_is_an_error() {
        let whole = encode(7, &entry()).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(7, &flipped).is_err(), "bit {bit}");
        }
        for end in 0..whole.len() {
            assert!(decode(7, &whole[..end]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn the_bytes_of_each_action_stay_as_they_are() {
        let body = |action| postcard::to_allocvec(&action).unwrap();
        let takedown = entry().action;
        assert_eq!(body(takedown), b"\x00\x0fa-page-22222222\x02");
        let slug = || Slug::parse("a-page-22222222").unwrap();
        let hide = AuditAction::Hide { slug: slug(), reason: TakedownReason::Malware };
        assert_eq!(body(hide), b"\x02\x0fa-page-22222222\x02");
        assert_eq!(body(AuditAction::Show { slug: slug() }), b"\x03\x0fa-page-22222222");
        assert_eq!(body(AuditAction::Creates { paused: true, hourly_budget: Some(7) }), [1, 1, 1, 7]);
        assert_eq!(body(AuditAction::Inspect { slug: slug() }), b"\x05\x0fa-page-22222222");
        assert_eq!([AuditAction::Export, AuditAction::Scan, AuditAction::Log].map(body).concat(), [4, 6, 7]);
    }
}
