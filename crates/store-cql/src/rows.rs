//! Converts rows of the tables `pages` and `texts` to the values of the domain, and back.

use scylla::response::query_result::QueryResult;
use scylla::value::{CqlTimestamp, MaybeUnset, Row};
use scylla::{DeserializeRow, SerializeRow};
use thiserror::Error;

use super::nonces::{Nonce, Nonces, TextId};
use super::recent::Base;
use crate::domain::edit_key::EditKeyHash;
use crate::domain::language::Language;
use crate::domain::page::{Page, PageHead, PageText, PageVersion, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::{Takedown, TakedownReason};
use crate::domain::timestamp::UnixMillis;
use crate::domain::title::Title;
use crate::ports::page_store::{Cause, Lookup, StoreError};

const ACTIVE: &str = "active";
pub(super) const HIDDEN: &str = "hidden";
const DELETED: &str = "deleted";

/// A head as CQL returns it, in which any column may be missing.
#[derive(DeserializeRow)]
pub(super) struct HeadRow {
    state: Option<String>,
    version: Option<i64>,
    created_at: Option<CqlTimestamp>,
    updated_at: Option<CqlTimestamp>,
    deleted_at: Option<CqlTimestamp>,
    title: Option<String>,
    key_hash: Option<Vec<u8>>,
    current_text_version: Option<i64>,
    current_text_nonce: Option<Vec<u8>>,
    link_origins: Option<Vec<String>>,
    renderer_version: Option<i32>,
    takedown_reason: Option<String>,
    takedown_by: Option<String>,
    nonces: Option<Vec<u8>>,
}

/// The columns that change whenever a head does.
#[derive(DeserializeRow)]
pub(super) struct StateRow {
    state: Option<String>,
    version: Option<i64>,
    updated_at: Option<CqlTimestamp>,
    renderer_version: Option<i32>,
}

/// The columns that show which writes a head has seen.
#[derive(Debug, Default, DeserializeRow)]
pub(super) struct NonceRow {
    state: Option<String>,
    version: Option<i64>,
    created_at: Option<CqlTimestamp>,
    key_hash: Option<Vec<u8>>,
    nonces: Option<Vec<u8>>,
}

/// A row that is neither a page nor a tombstone for this version of Handbill.
#[derive(Debug, Error)]
pub(super) enum UnreadableRow {
    #[error("the column {0} is missing or out of range")]
    Column(&'static str),
    /// This version of Handbill does not know the row's state.
    #[error("the state is {0:?}, which this version does not know")]
    State(String),
    #[error("the text of the page is missing")]
    TextMissing,
}

impl From<UnreadableRow> for StoreError {
    fn from(row: UnreadableRow) -> Self {
        Self::Unreadable(Box::new(row))
    }
}

impl StateRow {
    /// Whether this is the state of `head`. No two writes of a page have one version and one time.
    pub(super) fn is_of(&self, head: &PageHead) -> bool {
        self.state.as_deref() == Some(state_of(head))
            && self.version == Some(head.version.get().cast_signed())
            && self.updated_at == Some(CqlTimestamp(head.updated_at.get()))
            && self.renderer_version == Some(i32::from(head.renderer_version))
    }
}

impl HeadRow {
    /// The head in this row, which was read under `slug`, of a hidden page too: writes replace it and texts belong to it as to
    /// any other. There may be texts that nothing points to although it is absent.
    pub(super) fn into_base(self, slug: &Slug) -> Result<Lookup<Base>, UnreadableRow> {
        match self.state.as_deref() {
            None => Ok(Lookup::Absent),
            Some(ACTIVE | HIDDEN) => self.into_active(slug).map(Lookup::Active),
            Some(DELETED) => Ok(Lookup::Deleted(Tombstone {
                slug: slug.clone(),
                version: version(self.version, "version")?,
                created_at: time(self.created_at, "created_at")?,
                deleted_at: time(self.deleted_at, "deleted_at")?,
                takedown: takedown(self.takedown_reason.as_deref(), self.takedown_by),
            })),
            Some(unknown) => Err(UnreadableRow::State(unknown.to_owned())),
        }
    }

    fn into_active(self, slug: &Slug) -> Result<Base, UnreadableRow> {
        let missing = UnreadableRow::Column;
        let key_hash = self.key_hash.and_then(|hash| hash.try_into().ok()).ok_or(missing("key_hash"))?;
        let nonce = self.current_text_nonce.and_then(|nonce| nonce.try_into().ok());
        let text = TextId {
            version: version(self.current_text_version, "current_text_version")?,
            nonce: nonce.ok_or(missing("current_text_nonce"))?,
        };
        let hidden = if self.state.as_deref() == Some(HIDDEN) {
            Some(Box::new(hiding(self.takedown_reason.as_deref(), self.takedown_by)))
        } else {
            None
        };
        let renderer_version = self.renderer_version.and_then(|version| u16::try_from(version).ok());
        let head = PageHead {
            slug: slug.clone(),
            title: self.title.filter(|title| !title.is_empty()).map(Title::from_stored),
            key_hash: EditKeyHash::from_bytes(key_hash),
            version: version(self.version, "version")?,
            created_at: time(self.created_at, "created_at")?,
            updated_at: time(self.updated_at, "updated_at")?,
            link_origins: self.link_origins.unwrap_or_default(),
            renderer_version: renderer_version.ok_or(missing("renderer_version"))?,
            hidden,
        };
        Ok(Base { head, text, digest: None, nonces: Nonces::from_stored(self.nonces.unwrap_or_default()) })
    }
}

fn version(column: Option<i64>, name: &'static str) -> Result<PageVersion, UnreadableRow> {
    column.map(|version| PageVersion::new(version.cast_unsigned())).ok_or(UnreadableRow::Column(name))
}

fn time(column: Option<CqlTimestamp>, name: &'static str) -> Result<UnixMillis, UnreadableRow> {
    column.map(millis).ok_or(UnreadableRow::Column(name))
}

pub(super) fn millis(CqlTimestamp(millis): CqlTimestamp) -> UnixMillis {
    UnixMillis::new(millis)
}

/// Why a page is hidden. A reason of a later version shows the page no more than any other.
pub(super) fn hiding(reason: Option<&str>, by: Option<String>) -> Takedown {
    let reason = reason.and_then(|reason| reason.parse().ok()).unwrap_or(TakedownReason::Terms);
    Takedown { reason, by: by.unwrap_or_default() }
}

/// The takedown in a tombstone. A reason of a later version is left out, because the page is deleted all the same.
pub(super) fn takedown(reason: Option<&str>, by: Option<String>) -> Option<Takedown> {
    Some(Takedown { reason: reason?.parse().ok()?, by: by.unwrap_or_default() })
}

impl NonceRow {
    pub(super) fn version(&self) -> Option<PageVersion> {
        self.version.map(|version| PageVersion::new(version.cast_unsigned()))
    }

    /// Whether the head is that of a page, perhaps hidden, and not a tombstone.
    pub(super) fn is_page(&self) -> bool {
        matches!(self.state.as_deref(), Some(ACTIVE | HIDDEN))
    }

    /// Whether the write that made `version` had `nonce`. The row shows this only for the last versions.
    pub(super) fn carries(&self, version: PageVersion, nonce: &Nonce) -> bool {
        let age = self.version().and_then(|present| present.get().checked_sub(version.get()));
        let nonces = Nonces::from_stored(self.nonces.clone().unwrap_or_default());
        age.and_then(|age| nonces.of(age)) == Some(nonce.as_slice())
    }

    /// Whether so many writes followed the one that made `version` that its nonce is no longer kept.
    pub(super) fn has_forgotten(&self, version: PageVersion) -> bool {
        let age = self.version().and_then(|present| present.get().checked_sub(version.get()));
        let nonces = Nonces::from_stored(self.nonces.clone().unwrap_or_default());
        age.is_some_and(|age| nonces.of(age).is_none())
    }

    /// Whether the head is of the page `head`: two creates with one key have different times.
    pub(super) fn is_of(&self, head: &PageHead) -> bool {
        self.key_hash.as_deref() == Some(head.key_hash.as_bytes())
            && self.created_at == Some(CqlTimestamp(head.created_at.get()))
    }
}

/// The head that a write replaces.
///
/// A null is a tombstone of the database, which drops it after `gc_grace`. A copy that has missed it until then would show the
/// earlier value under the later version. So what a head no longer has is empty, and what it never had is not written.
#[derive(Clone, Copy)]
pub(super) enum Over {
    Nothing,
    AHead,
    AHiddenHead,
}

impl Over {
    /// The value of a column that the head does not have.
    fn emptied<T: Default>(self) -> MaybeUnset<T> {
        match self {
            Self::Nothing => MaybeUnset::Unset,
            Self::AHead | Self::AHiddenHead => MaybeUnset::Set(T::default()),
        }
    }

    /// The value of a column of takedowns that the head does not have.
    fn emptied_of_takedown<T: Default>(self) -> MaybeUnset<T> {
        match self {
            Self::Nothing | Self::AHead => MaybeUnset::Unset,
            Self::AHiddenHead => MaybeUnset::Set(T::default()),
        }
    }
}

/// The parameters of a statement that writes a head: every column that is set in it or may have been before, and the slug.
#[derive(SerializeRow)]
pub(super) struct HeadParameters {
    state: &'static str,
    version: i64,
    created_at: CqlTimestamp,
    updated_at: CqlTimestamp,
    deleted_at: MaybeUnset<CqlTimestamp>,
    title: MaybeUnset<String>,
    key_hash: MaybeUnset<Vec<u8>>,
    current_text_version: MaybeUnset<i64>,
    current_text_nonce: MaybeUnset<Vec<u8>>,
    link_origins: MaybeUnset<Vec<String>>,
    renderer_version: MaybeUnset<i32>,
    takedown_reason: MaybeUnset<&'static str>,
    takedown_by: MaybeUnset<String>,
    nonces: Vec<u8>,
    slug: String,
}

/// A head that replaces the one with this version and time.
#[derive(SerializeRow)]
pub(super) struct Replacement {
    #[scylla(flatten)]
    pub(super) head: HeadParameters,
    expected_state: &'static str,
    expected_version: i64,
    expected_updated_at: CqlTimestamp,
}

impl HeadParameters {
    pub(super) fn of_page(head: &PageHead, text: TextId, nonces: &Nonces, over: Over) -> Self {
        let title = head.title.as_ref().map(|title| title.as_str().to_owned());
        let takedown = head.hidden.as_deref();
        let link_origins = Some(&head.link_origins).filter(|origins| !origins.is_empty());
        Self {
            state: state_of(head),
            version: head.version.get().cast_signed(),
            created_at: CqlTimestamp(head.created_at.get()),
            updated_at: CqlTimestamp(head.updated_at.get()),
            // No page follows a tombstone.
            deleted_at: MaybeUnset::Unset,
            title: title.map_or_else(|| over.emptied(), MaybeUnset::Set),
            key_hash: MaybeUnset::Set(head.key_hash.as_bytes().to_vec()),
            current_text_version: MaybeUnset::Set(text.version.get().cast_signed()),
            current_text_nonce: MaybeUnset::Set(text.nonce.to_vec()),
            link_origins: link_origins.cloned().map_or_else(|| over.emptied(), MaybeUnset::Set),
            renderer_version: MaybeUnset::Set(i32::from(head.renderer_version)),
            takedown_reason: takedown.map_or(over.emptied_of_takedown(), |by| MaybeUnset::Set(by.reason.code())),
            takedown_by: takedown.map_or(over.emptied_of_takedown(), |by| MaybeUnset::Set(by.by.clone())),
            nonces: nonces.as_bytes().to_vec(),
            slug: head.slug.as_str().to_owned(),
        }
    }

    pub(super) fn of_tombstone(tombstone: &Tombstone, nonces: &Nonces, over: Over) -> Self {
        let takedown = tombstone.takedown.as_ref();
        Self {
            state: DELETED,
            version: tombstone.version.get().cast_signed(),
            created_at: CqlTimestamp(tombstone.created_at.get()),
            updated_at: CqlTimestamp(tombstone.deleted_at.get()),
            deleted_at: MaybeUnset::Set(CqlTimestamp(tombstone.deleted_at.get())),
            title: over.emptied(),
            key_hash: over.emptied(),
            current_text_version: over.emptied(),
            current_text_nonce: over.emptied(),
            link_origins: over.emptied(),
            renderer_version: over.emptied(),
            takedown_reason: takedown.map_or(over.emptied_of_takedown(), |by| MaybeUnset::Set(by.reason.code())),
            takedown_by: takedown.map_or(over.emptied_of_takedown(), |by| MaybeUnset::Set(by.by.clone())),
            nonces: nonces.as_bytes().to_vec(),
            slug: tombstone.slug.as_str().to_owned(),
        }
    }

    pub(super) fn replacing(self, expected: &PageHead) -> Replacement {
        Replacement {
            head: self,
            expected_state: state_of(expected),
            expected_version: expected.version.get().cast_signed(),
            expected_updated_at: CqlTimestamp(expected.updated_at.get()),
        }
    }
}

fn state_of(head: &PageHead) -> &'static str {
    if head.hidden.is_some() { HIDDEN } else { ACTIVE }
}

/// The parameters of a statement that inserts a text: CQL writes an unset column where it reads a missing one.
#[derive(SerializeRow)]
pub(super) struct TextParameters<'a> {
    slug: &'a str,
    text_version: i64,
    text_nonce: &'a [u8],
    content: &'a str,
    html: &'a str,
    excerpt: &'a str,
    code_blocks: MaybeUnset<Vec<i32>>,
    language: MaybeUnset<&'a str>,
    inserted_at: CqlTimestamp,
    written_at: i64,
}

impl<'a> TextParameters<'a> {
    /// The text of `page` under `id`, inserted at `now`, with the timestamp `written_at` in microseconds.
    pub(super) fn of(page: &'a Page, id: &'a TextId, now: UnixMillis, written_at: i64) -> Self {
        let PageText { content, html, excerpt, code_blocks, language } = &page.text;
        Self {
            slug: page.head.slug.as_str(),
            text_version: id.version.get().cast_signed(),
            text_nonce: &id.nonce,
            content: content.as_str(),
            html,
            excerpt,
            // The positions are below 4 MB.
            code_blocks: MaybeUnset::from_option(
                (!code_blocks.is_empty()).then(|| code_blocks.iter().map(|at| at.cast_signed()).collect()),
            ),
            language: MaybeUnset::from_option(language.map(Language::code)),
            inserted_at: CqlTimestamp(now.get()),
            written_at,
        }
    }
}

/// Whether a conditional write was applied, by the answer's column `[applied]`.
///
/// The column is found by its name, because the servers answer with different columns. Cassandra returns `[applied]` alone
/// after a write that was applied, and adds the columns of the condition after a refusal. ScyllaDB always adds the key and
/// those columns, with nulls if there was no row. These other columns are not used.
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
    use crate::texts::TextRow;

    fn slug() -> Slug {
        Slug::parse("page-22222222").unwrap()
    }

    fn empty() -> HeadRow {
        HeadRow {
            state: None,
            version: Some(1),
            created_at: Some(CqlTimestamp(0)),
            updated_at: Some(CqlTimestamp(0)),
            deleted_at: None,
            title: None,
            key_hash: Some(vec![0; 32]),
            current_text_version: Some(1),
            current_text_nonce: Some(vec![0; 16]),
            link_origins: None,
            renderer_version: Some(1),
            takedown_reason: None,
            takedown_by: None,
            nonces: None,
        }
    }

    fn active() -> HeadRow {
        HeadRow { state: Some(ACTIVE.to_owned()), ..empty() }
    }

    #[test]
    fn a_state_is_that_of_a_head_only_if_all_of_it_is() {
        let Ok(Lookup::Active(Base { head, .. })) = active().into_base(&slug()) else { panic!("it is a page") };
        let state = || StateRow {
            state: Some(ACTIVE.to_owned()),
            version: Some(1),
            updated_at: Some(CqlTimestamp(0)),
            renderer_version: Some(1),
        };
        assert!(state().is_of(&head));
        // An import may put another version of the same time in its place, and a renderer's pass the same version.
        let others = [
            StateRow { state: Some(HIDDEN.to_owned()), ..state() },
            StateRow { version: Some(2), ..state() },
            StateRow { updated_at: Some(CqlTimestamp(1)), ..state() },
            StateRow { renderer_version: Some(2), ..state() },
            StateRow { state: None, ..state() },
        ];
        assert!(others.iter().all(|other| !other.is_of(&head)));
    }

    fn text() -> TextRow {
        TextRow {
            text_version: 1,
            text_nonce: vec![0; 16],
            content: Some("text".to_owned()),
            html: Some(String::new()),
            excerpt: None,
            code_blocks: None,
            language: None,
        }
    }

    #[test]
    fn a_head_without_what_a_page_must_have_is_unreadable() {
        assert!(matches!(active().into_base(&slug()), Ok(Lookup::Active(_))));
        assert!(matches!(empty().into_base(&slug()), Ok(Lookup::Absent)));
        let unreadable = [
            HeadRow { state: Some("archived".to_owned()), ..empty() },
            HeadRow { state: Some(DELETED.to_owned()), ..empty() },
            HeadRow { key_hash: Some(vec![0; 31]), ..active() },
            HeadRow { current_text_version: None, ..active() },
            HeadRow { current_text_nonce: Some(vec![0; 15]), ..active() },
            HeadRow { renderer_version: Some(65_536), ..active() },
            HeadRow { version: None, ..active() },
        ];
        for row in unreadable {
            assert!(row.into_base(&slug()).is_err());
        }
    }

    #[test]
    fn a_text_without_what_it_must_have_is_unreadable() {
        let head = || match active().into_base(&slug()) {
            Ok(Lookup::Active(base)) => base.head,
            other => panic!("{other:?}"),
        };
        assert!(text().into_page(head()).is_ok());
        for row in [TextRow { content: None, ..text() }, TextRow { html: None, ..text() }] {
            assert!(row.into_page(head()).is_err());
        }
    }

    #[test]
    fn a_page_whose_title_and_content_today_would_be_refused_can_be_read() {
        let head = HeadRow { title: Some("a".repeat(201)), ..active() }.into_base(&slug());
        let Ok(Lookup::Active(Base { head, .. })) = head else { panic!("{head:?}") };
        let page = TextRow { content: Some("a".repeat(102_401)), ..text() }.into_page(head).unwrap();
        assert_eq!(
            (page.head.title.as_ref().unwrap().as_str().len(), page.text.content.as_str().len()),
            (201, 102_401)
        );
    }

    #[test]
    fn a_tombstone_keeps_who_took_the_page_down_and_a_reason_that_is_not_known_changes_nothing_else() {
        let deleted = |reason: &str| HeadRow {
            state: Some(DELETED.to_owned()),
            deleted_at: Some(CqlTimestamp(1)),
            takedown_reason: Some(reason.to_owned()),
            takedown_by: Some("desk".to_owned()),
            ..empty()
        };
        let takedown = |reason| match deleted(reason).into_base(&slug()) {
            Ok(Lookup::Deleted(tombstone)) => tombstone.takedown.map(|takedown| (takedown.reason.code(), takedown.by)),
            other => panic!("{other:?}"),
        };
        assert_eq!(takedown("spam"), Some(("spam", "desk".to_owned())));
        assert_eq!(takedown("of-a-later-version"), None);
    }

    #[test]
    fn a_nonce_is_found_under_the_version_that_its_write_made() {
        let nonces = Nonces::first([1; 16]).and_then([2; 16]);
        let row = NonceRow {
            state: Some(ACTIVE.to_owned()),
            version: Some(20),
            created_at: None,
            key_hash: None,
            nonces: Some(nonces.as_bytes().to_vec()),
        };
        assert!(row.carries(PageVersion::new(20), &[2; 16]));
        assert!(row.carries(PageVersion::new(19), &[1; 16]));
        assert!(!row.carries(PageVersion::new(20), &[1; 16]));
        assert!(!row.carries(PageVersion::new(18), &[1; 16]));
        assert!(!row.carries(PageVersion::new(21), &[2; 16]));
    }
}
