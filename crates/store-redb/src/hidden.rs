//! Finds the hidden pages whose time is over.

use redb::{Database, ReadableDatabase};

use super::record;
use super::tables::PAGES;
use super::visibility;
use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_store::Lookup;

/// The pages that are hidden no longer than until `now`, at most `limit`.
pub(super) fn over(database: &Database, now: UnixMillis, limit: usize) -> Result<Vec<Slug>, redb::Error> {
    let transaction = database.begin_read()?;
    let pages = transaction.open_table(PAGES)?;
    let all = visibility::in_range(&transaction, visibility::ALL)?;
    let mut slugs = Vec::new();
    for Visibility { slug, hidden, .. } in all.into_iter().flatten() {
        // The page may not be there yet.
        let is_hidden = hidden.is_some_and(|hidden| hidden.until <= now)
            && pages
                .get(slug.as_str())?
                .is_some_and(|bytes| matches!(record::decode_head(&slug, bytes.value()), Ok(Lookup::Hidden(_))));
        slugs.extend(is_hidden.then_some(slug));
        if slugs.len() == limit {
            break;
        }
    }
    Ok(slugs)
}
