//! A page or tombstone as a row of `pages`.
//!
//! SQLite has no checksums, so each row ends with one, which every read verifies: a flipped bit is an error.

use std::sync::Arc;

use handbill_pages::ports::page_store::Cause;
use handbill_pages::values::page::{PackedTextError, pack, unpack};
use handbill_pages::values::{head::Head, page::Page, record::Record};
use rusqlite::types::{Value, ValueRef};
use xxhash_rust::xxh3::Xxh3;

/// The beginning of a statement that reads rows for [`record`]. The checksum is of all columns before it.
pub(super) const SELECT: &str = "SELECT slug, state, version, head, text, checksum FROM pages";

/// Both bind the [`values`] of a row.
pub(super) const INSERT: &str = "INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (slug) DO NOTHING";
pub(super) const UPDATE: &str =
    "UPDATE pages SET (slug, state, version, head, text, checksum) = (?1, ?2, ?3, ?4, ?5, ?6) WHERE slug = ?1";

pub(super) const HIDDEN: &str = "hidden";
pub(super) const DELETED: &str = "deleted";

pub(super) fn values(record: &Record) -> Result<Vec<Value>, PackedTextError> {
    let head = record.head();
    let mut values = vec![
        Value::Text(head.slug.to_string()),
        Value::Text(record.name().to_owned()),
        Value::Integer(head.version.get().cast_signed()),
        Value::Text(head.to_json()),
        match record.page() {
            Some(page) => Value::Blob(pack(&page.text)?),
            None => Value::Null,
        },
    ];
    values.push(Value::Integer(checksum(values.iter().map(ValueRef::from))));
    Ok(values)
}

/// The record in `row`, which [`SELECT`] has read.
pub(super) fn record(row: &rusqlite::Row<'_>) -> Result<Record, Cause> {
    // `get_ref` fails only for a column that the statement does not have.
    let checked = [0, 1, 2, 3, 4].map(|index| row.get_ref(index).unwrap_or(ValueRef::Null));
    if checksum(checked.into_iter()) != row.get_ref(checked.len())?.as_i64()? {
        return Err("the row does not match its checksum".into());
    }
    let [_, _, _, head, text] = checked;
    let record = Record::from(Head::from_json(head.as_bytes()?)?);
    record.try_map(|head| Ok::<_, Cause>(Arc::new(Page { head, text: unpack(text.as_blob()?)? })))
}

fn checksum<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> i64 {
    let mut hash = Xxh3::new();
    let mut add = |kind: u8, bytes: &[u8]| {
        hash.update(&[kind]);
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for value in values {
        match value {
            ValueRef::Null => add(0, &[]),
            ValueRef::Integer(number) => add(1, &number.to_le_bytes()),
            ValueRef::Real(number) => add(2, &number.to_le_bytes()),
            ValueRef::Text(bytes) => add(3, bytes),
            ValueRef::Blob(bytes) => add(4, bytes),
        }
    }
    hash.digest().cast_signed()
}
