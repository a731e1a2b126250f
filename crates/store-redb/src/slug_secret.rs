//! The deployment's secret for slugs, in a table of its own. The transaction that makes the tables of a new file makes it.

use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};

use crate::domain::slug_secret::{SECRET_BYTES, SlugSecret};
use crate::ports::random::{Random, new_slug_secret};

/// The secret, under the key 0.
pub(super) const SECRET: TableDefinition<u8, [u8; SECRET_BYTES]> = TableDefinition::new("slug_secret");

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(SECRET)?.insert(0, new_slug_secret(&Random::System).as_bytes())?;
    Ok(())
}

pub(super) fn read(database: &Database) -> Result<Option<SlugSecret>, redb::Error> {
    let table = database.begin_read()?.open_table(SECRET)?;
    Ok(table.get(0)?.map(|bytes| SlugSecret::from_bytes(bytes.value())))
}
