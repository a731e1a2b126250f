//! The entries that the ledger may lack, in a table of the database.

use redb::{TableDefinition, WriteTransaction};

use crate::domain::archive::Entry;
use crate::domain::slug::Slug;

/// The slugs of pages that were deleted, hidden or shown, and that the ledger may not say so of yet.
pub(super) const UNLOGGED: TableDefinition<&str, ()> = TableDefinition::new("unlogged");

/// Removes `logged` from [`UNLOGGED`] and adds those of `entries`.
pub(super) fn stage(transaction: &WriteTransaction, logged: &[Slug], entries: &[Entry]) -> Result<(), redb::Error> {
    if logged.is_empty() && entries.is_empty() {
        return Ok(());
    }
    let mut unlogged = transaction.open_table(UNLOGGED)?;
    for slug in logged {
        unlogged.remove(slug.as_str())?;
    }
    for entry in entries {
        unlogged.insert(entry.slug().as_str(), ())?;
    }
    Ok(())
}
