//! The last acts of operators on the pages that they hid or showed again, in a table of its own: a page that
//! the store does not have yet may be hidden too.

use std::ops::Bound;

use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError, WriteTransaction};

use crate::domain::archive::{ArchiveError, Entry, entry_line, read_entry_line};
use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;

/// For each page that operators have hidden or shown, the line of the ledger that says so. It is made with the first one.
pub(super) const VISIBILITY: TableDefinition<&str, &str> = TableDefinition::new("visibility");

/// Every slug.
pub(super) const ALL: (Bound<&str>, Bound<&str>) = (Bound::Unbounded, Bound::Unbounded);

/// Notes `visibility` unless operators did something later; returns whether it is new.
pub(super) fn keep(transaction: &WriteTransaction, visibility: &Visibility) -> Result<bool, redb::Error> {
    let mut table = transaction.open_table(VISIBILITY)?;
    let before = table.get(visibility.slug.as_str())?.and_then(|line| parse(line.value()).ok());
    if before.is_some_and(|before| before.at >= visibility.at) {
        return Ok(false);
    }
    let line = entry_line(&Entry::Visibility(visibility.clone()));
    table.insert(visibility.slug.as_str(), line.as_str())?;
    Ok(true)
}

/// Notes that the page under `slug` is deleted.
pub(super) fn forget(transaction: &WriteTransaction, slug: &Slug) -> Result<(), redb::Error> {
    transaction.open_table(VISIBILITY)?.remove(slug.as_str())?;
    Ok(())
}

/// The note about the page under `slug`. A line that cannot be read is none: `handbill check` finds it.
pub(super) fn of(transaction: &ReadTransaction, slug: &str) -> Result<Option<Visibility>, redb::Error> {
    let found = in_range(transaction, (Bound::Included(slug), Bound::Included(slug)))?;
    Ok(found.into_iter().next().and_then(Result::ok))
}

/// All that is noted of the slugs in `range`; of a line that cannot be read, its slug.
pub(super) fn in_range(
    transaction: &ReadTransaction,
    range: (Bound<&str>, Bound<&str>),
) -> Result<Vec<Result<Visibility, String>>, redb::Error> {
    let table = match transaction.open_table(VISIBILITY) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut all = Vec::new();
    for entry in table.range::<&str>(range)? {
        let (slug, line) = entry?;
        all.push(parse(line.value()).map_err(|_| slug.value().to_owned()));
    }
    Ok(all)
}

fn parse(line: &str) -> Result<Visibility, ArchiveError> {
    match read_entry_line(line.as_bytes())? {
        Entry::Visibility(visibility) => Ok(visibility),
        Entry::Page(..) | Entry::Tombstone(_) => Err(ArchiveError::Damaged { line: 1 }),
    }
}
