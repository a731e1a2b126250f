//! The number of tombstones, which the database keeps so that nobody has to count them.

use redb::{ReadableTable, Table};

use super::record;
use crate::domain::slug::Slug;
use crate::ports::page_store::Lookup;

/// The number of tombstones, among the facts about the whole file.
pub(super) const TOMBSTONES_KEY: &str = "tombstones";

/// Adds `new` to the number of tombstones. `pages` has them already.
pub(super) fn add(
    meta: &mut Table<'_, &'static str, u64>,
    pages: &impl ReadableTable<&'static str, &'static [u8]>,
    new: u64,
) -> Result<(), redb::Error> {
    let before = meta.get(TOMBSTONES_KEY)?.map(|count| count.value());
    let count = match before {
        Some(_) if new == 0 => return Ok(()),
        Some(before) => before.saturating_add(new),
        // This is the first batch of a new file, or of one in which they were not counted yet.
        None => tombstones(pages)?,
    };
    meta.insert(TOMBSTONES_KEY, count)?;
    Ok(())
}

fn tombstones(pages: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<u64, redb::Error> {
    let mut count = 0;
    for entry in pages.iter()? {
        let (slug, value) = entry?;
        let head = Slug::parse(slug.value()).ok().and_then(|slug| record::decode_head(&slug, value.value()).ok());
        count += u64::from(matches!(head, Some(Lookup::Deleted(_))));
    }
    Ok(count)
}
