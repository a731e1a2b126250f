//! The deletions that may not be in the ledger yet, in a table of the database.

use redb::{TableDefinition, WriteTransaction};

use crate::domain::page::Tombstone;
use crate::domain::slug::Slug;

/// The slugs of deletions that may not be in the ledger yet.
pub(super) const UNLOGGED: TableDefinition<&str, ()> = TableDefinition::new("unlogged_deletions");

/// Removes `logged` from [`UNLOGGED`] and adds `deleted`.
pub(super) fn stage<'a>(
    transaction: &WriteTransaction,
    logged: &[Slug],
    deleted: impl Iterator<Item = &'a Tombstone>,
) -> Result<(), redb::Error> {
    let mut deleted = deleted.peekable();
    if logged.is_empty() && deleted.peek().is_none() {
        return Ok(());
    }
    let mut unlogged = transaction.open_table(UNLOGGED)?;
    for slug in logged {
        unlogged.remove(slug.as_str())?;
    }
    for tombstone in deleted {
        unlogged.insert(tombstone.slug.as_str(), ())?;
    }
    Ok(())
}
