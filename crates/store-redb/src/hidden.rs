//! Until when pages are hidden, in a table of its own, so that nobody reads every record to find those whose time has come.

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction};

use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;

/// For each hidden page the time in milliseconds until which its text is kept. It is made with the first hidden page.
pub(super) const HIDDEN: TableDefinition<&str, i64> = TableDefinition::new("hidden");

/// Notes that the page under `slug` is hidden until `until`, or not hidden any more.
pub(super) fn stage(transaction: &WriteTransaction, slug: &Slug, until: Option<UnixMillis>) -> Result<(), redb::Error> {
    let mut hidden = transaction.open_table(HIDDEN)?;
    match until {
        Some(until) => drop(hidden.insert(slug.as_str(), until.get())?),
        None => drop(hidden.remove(slug.as_str())?),
    }
    Ok(())
}

/// The pages that are hidden no longer than until `now`, at most `limit`.
pub(super) fn over(database: &Database, now: UnixMillis, limit: usize) -> Result<Vec<Slug>, redb::Error> {
    let transaction = database.begin_read()?;
    let hidden = match transaction.open_table(HIDDEN) {
        Ok(hidden) => hidden,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut slugs = Vec::new();
    for entry in hidden.iter()? {
        let (slug, until) = entry?;
        if until.value() <= now.get() {
            slugs.extend(Slug::parse(slug.value()));
        }
        if slugs.len() == limit {
            break;
        }
    }
    Ok(slugs)
}
