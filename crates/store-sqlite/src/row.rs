//! A page or tombstone as a row of `pages`.
//!
//! SQLite has no checksums, so each row ends with one, which every read verifies: a flipped bit is an error.

use std::sync::{Arc, LazyLock};

use handbill_pages::ports::page_store::{Cause, Record};
use handbill_pages::values::edit_key::EditKeyHash;
use handbill_pages::values::packed_text::{PackedTextError, encode, pack, unpack};
use handbill_pages::values::page::{Page, PageHead, PageVersion, Tombstone};
use handbill_pages::values::slug::Slug;
use handbill_pages::values::takedown::Takedown;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_pages::values::title::Title;
use rusqlite::types::{Value, ValueRef};
use xxhash_rust::xxh3::Xxh3;

/// The columns, in the order of [`values`]. The last is the checksum of all others.
const COLUMNS: [&str; 13] = [
    "slug",
    "state",
    "version",
    "created_at",
    "updated_at",
    "reason",
    "operator",
    "title",
    "key_hash",
    "link_origins",
    "renderer_version",
    "text",
    "checksum",
];

const CHECKED: usize = COLUMNS.len() - 1;

/// The beginning of a statement that reads rows for [`record`].
pub(super) static SELECT: LazyLock<String> = LazyLock::new(|| format!("SELECT {} FROM pages", COLUMNS.join(", ")));

/// Both bind the [`values`] of a row.
pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| {
    format!("INSERT INTO pages ({}) VALUES ({}) ON CONFLICT (slug) DO NOTHING", COLUMNS.join(", "), parameters())
});
pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE pages SET ({}) = ({}) WHERE slug = ?1", COLUMNS.join(", "), parameters()));

fn parameters() -> String {
    ["?"; COLUMNS.len()].join(", ")
}

pub(super) const ACTIVE: &str = "active";
pub(super) const HIDDEN: &str = "hidden";
pub(super) const DELETED: &str = "deleted";

pub(super) fn values(record: &Record) -> Result<Vec<Value>, PackedTextError> {
    let text = |text: &str| Value::Text(text.to_owned());
    let (slug, state, version, created_at, updated_at, takedown) = match record {
        Record::Active(page) => {
            let PageHead { slug, version, created_at, updated_at, hidden, .. } = &page.head;
            let state = if hidden.is_some() { HIDDEN } else { ACTIVE };
            (slug, state, version, created_at, updated_at, hidden.as_deref())
        }
        Record::Deleted(Tombstone { slug, version, created_at, deleted_at, takedown }) => {
            (slug, DELETED, version, created_at, deleted_at, takedown.as_ref())
        }
    };
    let mut values = Vec::with_capacity(CHECKED + 1);
    values.extend([
        text(slug.as_str()),
        text(state),
        Value::Integer(version.get().cast_signed()),
        Value::Integer(created_at.get()),
        Value::Integer(updated_at.get()),
        takedown.map_or(Value::Null, |takedown| text(takedown.reason.code())),
        takedown.map_or(Value::Null, |takedown| text(&takedown.by)),
    ]);
    if let Record::Active(page) = record {
        let PageHead {
            title,
            key_hash,
            link_origins,
            renderer_version,
            slug: _,
            version: _,
            created_at: _,
            updated_at: _,
            hidden: _,
        } = &page.head;
        values.extend([
            title.as_ref().map_or(Value::Null, |title| text(title.as_str())),
            Value::Blob(key_hash.as_bytes().to_vec()),
            Value::Text(link_origins.join("\n")),
            Value::Integer((*renderer_version).into()),
            Value::Blob(pack(&[], &encode(&page.text)?)?),
        ]);
    }
    values.resize(CHECKED, Value::Null);
    values.push(Value::Integer(checksum(values.iter().map(ValueRef::from))));
    Ok(values)
}

/// The record in `row`, which [`SELECT`] has read.
pub(super) fn record(row: &rusqlite::Row<'_>) -> Result<Record, Cause> {
    // `get_ref` fails only for a column that the statement does not have.
    let column = |name: &str| row.get_ref(name).unwrap_or(ValueRef::Null);
    let checked = (0..CHECKED).map(|index| row.get_ref(index).unwrap_or(ValueRef::Null));
    if checksum(checked) != column("checksum").as_i64()? {
        return Err("the row does not match its checksum".into());
    }
    let slug = Slug::parse(column("slug").as_str()?)?;
    let version = PageVersion::new(column("version").as_i64()?.cast_unsigned());
    let created_at = UnixMillis::new(column("created_at").as_i64()?);
    let updated_at = UnixMillis::new(column("updated_at").as_i64()?);
    let takedown = takedown(column("reason"), column("operator"))?;
    let is_hidden = match column("state").as_str()? {
        DELETED => {
            return Ok(Record::Deleted(Tombstone { slug, version, created_at, deleted_at: updated_at, takedown }));
        }
        HIDDEN => true,
        ACTIVE => false,
        state => return Err(format!("the row has the state {state:?}, which this Handbill does not know").into()),
    };
    let key_hash = column("key_hash").as_blob()?.try_into()?;
    let head = PageHead {
        slug,
        title: column("title").as_str_or_null()?.map(|title| Title::from_stored(title.to_owned())),
        key_hash: EditKeyHash::from_bytes(key_hash),
        version,
        created_at,
        updated_at,
        link_origins: column("link_origins").as_str()?.lines().map(str::to_owned).collect(),
        renderer_version: column("renderer_version").as_i64()?.try_into()?,
        hidden: if is_hidden { takedown.map(Box::new) } else { None },
    };
    Ok(Record::Active(Arc::new(Page { head, text: unpack(column("text").as_blob()?)? })))
}

fn takedown(reason: ValueRef<'_>, operator: ValueRef<'_>) -> Result<Option<Takedown>, Cause> {
    let Some(reason) = reason.as_str_or_null()? else { return Ok(None) };
    Ok(Some(Takedown { reason: reason.parse()?, by: operator.as_str()?.to_owned() }))
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
