//! Converts rows of the table `pages` to the values of the domain, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use scylla::DeserializeRow;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::value::{CqlTimestamp, Row};
use thiserror::Error;

use crate::domain::content::Content;
use crate::domain::edit_key::EditKeyHash;
use crate::domain::language::Language;
use crate::domain::markdown::Rendered;
use crate::domain::page::{Page, PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::timestamp::UnixMillis;
use crate::domain::title::Title;
use crate::ports::page_store::{Cause, Lookup};

/// A row keeps the nonces of this many writes.
pub(super) const REMEMBERED_WRITES: u64 = 16;

const ACTIVE: &str = "active";
const DELETED: &str = "deleted";

/// 128 random bits that identify one write. They are the same each time that the write is sent.
pub(super) type Nonce = [u8; 16];

/// The columns that a lookup reads.
#[derive(DeserializeRow)]
pub(super) struct PageRow {
    state: Option<String>,
    version: Option<i64>,
    title: Option<String>,
    content: Option<String>,
    html: Option<String>,
    excerpt: Option<String>,
    code_blocks: Option<Vec<i32>>,
    link_origins: Option<Vec<String>>,
    language: Option<String>,
    renderer_version: Option<i32>,
    key_hash: Option<Vec<u8>>,
    created_at: Option<CqlTimestamp>,
    updated_at: Option<CqlTimestamp>,
    deleted_at: Option<CqlTimestamp>,
}

/// The columns that show which writes a row has seen.
#[derive(Debug, Default, DeserializeRow)]
pub(super) struct NonceRow {
    state: Option<String>,
    version: Option<i64>,
    key_hash: Option<Vec<u8>>,
    nonces: Option<BTreeMap<i8, Vec<u8>>>,
}

/// A row that is neither a page nor a tombstone for this version of Handbill.
#[derive(Debug, Error)]
pub(super) enum UnreadableRow {
    /// A required column is null or out of range.
    #[error("the column {0} is missing or out of range")]
    Column(&'static str),
    /// This version of Handbill does not know the row's state.
    #[error("the state is {0:?}, which this version does not know")]
    State(Option<String>),
}

impl PageRow {
    /// The page or tombstone in this row, which was read under `slug`.
    pub(super) fn into_lookup(self, slug: &Slug) -> Result<Lookup, UnreadableRow> {
        match self.state.as_deref() {
            Some(ACTIVE) => Ok(Lookup::Active(Arc::new(self.into_page(slug)?))),
            Some(DELETED) => Ok(Lookup::Deleted(Tombstone {
                slug: slug.clone(),
                version: version(self.version)?,
                created_at: time(self.created_at, "created_at")?,
                deleted_at: time(self.deleted_at, "deleted_at")?,
                takedown: None,
            })),
            _ => Err(UnreadableRow::State(self.state)),
        }
    }

    fn into_page(self, slug: &Slug) -> Result<Page, UnreadableRow> {
        let missing = UnreadableRow::Column;
        let title = self.title.map(|title| Title::parse(&title)).transpose().map_err(|_| missing("title"))?;
        let content = self.content.and_then(|content| Content::parse(content).ok()).ok_or(missing("content"))?;
        let key_hash = self.key_hash.and_then(|hash| hash.try_into().ok()).ok_or(missing("key_hash"))?;
        let renderer_version = self.renderer_version.and_then(|version| u16::try_from(version).ok());
        Ok(Page {
            slug: slug.clone(),
            title,
            content,
            rendered: Rendered {
                html: self.html.ok_or(missing("html"))?,
                excerpt: self.excerpt.unwrap_or_default(),
                code_blocks: self.code_blocks.unwrap_or_default().into_iter().map(i32::cast_unsigned).collect(),
                link_origins: self.link_origins.unwrap_or_default(),
                language: self.language.as_deref().and_then(Language::from_code),
                renderer_version: renderer_version.ok_or(missing("renderer_version"))?,
            },
            key_hash: EditKeyHash::from_bytes(key_hash),
            version: version(self.version)?,
            created_at: time(self.created_at, "created_at")?,
            updated_at: time(self.updated_at, "updated_at")?,
        })
    }
}

fn version(column: Option<i64>) -> Result<PageVersion, UnreadableRow> {
    column.map(|version| PageVersion::new(version.cast_unsigned())).ok_or(UnreadableRow::Column("version"))
}

fn time(column: Option<CqlTimestamp>, name: &'static str) -> Result<UnixMillis, UnreadableRow> {
    column.map(|CqlTimestamp(millis)| UnixMillis::new(millis)).ok_or(UnreadableRow::Column(name))
}

impl NonceRow {
    /// The version of the page or tombstone.
    pub(super) fn version(&self) -> Option<PageVersion> {
        self.version.map(|version| PageVersion::new(version.cast_unsigned()))
    }

    /// Whether the row is a page, not a tombstone.
    pub(super) fn is_active(&self) -> bool {
        self.state.as_deref() == Some(ACTIVE)
    }

    /// Whether the write that made `version` had `nonce`. The row shows this only for the last [`REMEMBERED_WRITES`]
    /// versions.
    pub(super) fn carries(&self, version: PageVersion, nonce: &Nonce) -> bool {
        let carried = self.nonces.as_ref().and_then(|nonces| nonces.get(&slot(version)));
        carried.is_some_and(|carried| carried == nonce)
    }

    /// Whether the page's key has this hash.
    pub(super) fn has_key(&self, hash: EditKeyHash) -> bool {
        self.key_hash.as_deref() == Some(hash.as_bytes())
    }
}

/// The key, in the row's map of nonces, for the write that made `version`. Each write replaces the nonce of the 16th
/// write before it.
fn slot(version: PageVersion) -> i8 {
    i8::try_from(version.get() % REMEMBERED_WRITES).expect("a remainder below 16 fits")
}

/// The positions of the code blocks, which are below 4 MB, as CQL's `int`.
fn code_blocks(page: &Page) -> Option<Vec<i32>> {
    let blocks = &page.rendered.code_blocks;
    (!blocks.is_empty()).then(|| blocks.iter().map(|at| at.cast_signed()).collect())
}

/// The values of an insert of `page`.
pub(super) fn insert_values<'a>(page: &'a Page, nonce: &'a Nonce) -> impl SerializeRow + 'a {
    (
        page.slug.as_str(),
        page.version.get().cast_signed(),
        page.title.as_ref().map(Title::as_str),
        page.content.as_str(),
        page.rendered.html.as_str(),
        page.rendered.excerpt.as_str(),
        code_blocks(page),
        &page.rendered.link_origins,
        page.rendered.language.map(Language::code),
        i32::from(page.rendered.renderer_version),
        page.key_hash.as_bytes().as_slice(),
        CqlTimestamp(page.created_at.get()),
        CqlTimestamp(page.updated_at.get()),
        BTreeMap::from([(slot(page.version), nonce.as_slice())]),
    )
}

/// The values of a replacement of the version `expected` by `page`.
pub(super) fn replace_values<'a>(expected: PageVersion, page: &'a Page, nonce: &'a Nonce) -> impl SerializeRow + 'a {
    (
        page.version.get().cast_signed(),
        page.title.as_ref().map(Title::as_str),
        page.content.as_str(),
        page.rendered.html.as_str(),
        page.rendered.excerpt.as_str(),
        code_blocks(page),
        &page.rendered.link_origins,
        page.rendered.language.map(Language::code),
        i32::from(page.rendered.renderer_version),
        page.key_hash.as_bytes().as_slice(),
        CqlTimestamp(page.created_at.get()),
        CqlTimestamp(page.updated_at.get()),
        slot(page.version),
        nonce.as_slice(),
        page.slug.as_str(),
        expected.get().cast_signed(),
    )
}

/// The values of a replacement of the version `expected` by `tombstone`.
pub(super) fn delete_values<'a>(
    expected: PageVersion,
    tombstone: &'a Tombstone,
    nonce: &'a Nonce,
) -> impl SerializeRow + 'a {
    (
        tombstone.version.get().cast_signed(),
        CqlTimestamp(tombstone.created_at.get()),
        CqlTimestamp(tombstone.deleted_at.get()),
        slot(tombstone.version),
        nonce.as_slice(),
        tombstone.slug.as_str(),
        expected.get().cast_signed(),
    )
}

/// Whether a conditional write was applied, by the answer's column `[applied]`.
///
/// The column is found by its name, because the servers answer with different columns. Cassandra returns `[applied]` alone
/// after a write that was applied. After a refusal it adds the columns of the condition or, for an insert, of the whole
/// row. ScyllaDB always adds the key and those columns, with nulls if there was no row. These other columns are not used.
pub(super) fn applied(answer: QueryResult) -> Result<bool, Cause> {
    let rows = answer.into_rows_result()?;
    let (index, _) = rows.column_specs().get_by_name("[applied]").ok_or(MissingAppliedError)?;
    let row: Row = rows.first_row()?;
    Ok(row.columns[index].as_ref().and_then(scylla::value::CqlValue::as_boolean).ok_or(MissingAppliedError)?)
}

/// The answer to a conditional write does not say whether it was applied.
#[derive(Debug, Error)]
#[error("the answer has no column [applied] of type boolean")]
struct MissingAppliedError;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: u64, nonces: &[(u64, Nonce)]) -> NonceRow {
        NonceRow {
            state: Some(ACTIVE.to_owned()),
            version: Some(version.cast_signed()),
            key_hash: None,
            nonces: Some(nonces.iter().map(|(at, nonce)| (slot(PageVersion::new(*at)), nonce.to_vec())).collect()),
        }
    }

    #[test]
    fn a_nonce_is_found_under_the_version_that_its_write_made() {
        let row = row(20, &[(19, [1; 16]), (20, [2; 16])]);
        assert!(row.carries(PageVersion::new(20), &[2; 16]));
        assert!(!row.carries(PageVersion::new(20), &[1; 16]));
        assert!(!row.carries(PageVersion::new(18), &[1; 16]));
    }

    #[test]
    fn the_sixteenth_write_after_it_takes_a_nonces_place() {
        assert_eq!(slot(PageVersion::new(3)), slot(PageVersion::new(19)));
        let slots: std::collections::BTreeSet<i8> = (100..116).map(|at| slot(PageVersion::new(at))).collect();
        assert_eq!(slots.len(), 16);
    }

    #[test]
    fn a_row_without_what_a_page_must_have_is_unreadable() {
        let slug = Slug::parse("page-22222222").unwrap();
        let empty = || PageRow {
            state: None,
            version: Some(1),
            title: None,
            content: Some("text".to_owned()),
            html: Some(String::new()),
            excerpt: None,
            code_blocks: None,
            link_origins: None,
            language: None,
            renderer_version: Some(1),
            key_hash: Some(vec![0; 32]),
            created_at: Some(CqlTimestamp(0)),
            updated_at: Some(CqlTimestamp(0)),
            deleted_at: None,
        };
        let active = || PageRow { state: Some(ACTIVE.to_owned()), ..empty() };
        assert!(matches!(active().into_lookup(&slug), Ok(Lookup::Active(_))));
        let unreadable = [
            empty(),
            PageRow { state: Some("archived".to_owned()), ..empty() },
            PageRow { state: Some(DELETED.to_owned()), ..empty() },
            PageRow { content: Some(String::new()), ..active() },
            PageRow { key_hash: Some(vec![0; 31]), ..active() },
            PageRow { renderer_version: Some(65_536), ..active() },
            PageRow { version: None, ..active() },
        ];
        for row in unreadable {
            assert!(row.into_lookup(&slug).is_err());
        }
    }
}
