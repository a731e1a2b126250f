//! The lines that the ledger may lack, in a table of the database.

use redb::{TableDefinition, WriteTransaction};

use crate::domain::archive::Entry;

/// The keys of lines that the ledger may lack: slugs of pages that were deleted, hidden or shown.
pub(super) const UNLOGGED: TableDefinition<&str, ()> = TableDefinition::new("unlogged");

/// Removes `logged` from [`UNLOGGED`] and adds those of `lines`.
pub(super) fn stage(transaction: &WriteTransaction, logged: &[String], lines: &[Entry]) -> Result<(), redb::Error> {
    if logged.is_empty() && lines.is_empty() {
        return Ok(());
    }
    let mut unlogged = transaction.open_table(UNLOGGED)?;
    for key in logged {
        unlogged.remove(key.as_str())?;
    }
    for line in lines {
        unlogged.insert(line.slug().as_str(), ())?;
    }
    Ok(())
}
