//! The storage of pages: atomic operations on one page each.
//!
//! The contract (`tests/it/contract/`):
//!
//! * After `Ok`, an operation is durable, and every later lookup at any replica sees its effect or something newer.
//! * The store alone decides who gets a slug, and an inserted slug is never free again: a deleted page leaves a
//!   tombstone.
//! * A page with a head that is [hidden](PageHead::hidden) is stored like any other and looked up as [`Lookup::Hidden`].
//! * A caller that stops waiting breaks nothing. Its operation is then done completely or not at all.
//!
//! `needed_by` is when a write's caller needs the answer, so that a store can say in time whether anything changed.
//! Reads have no such time, because requests share them.

use std::iter;
use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;
use tokio::time::Instant;

use crate::values::archive::Stored;
use crate::values::journal::{Act, Line};
use crate::values::page::{Page, PageHead, PageState, PageVersion, Tombstone};
use crate::values::slug::{Slug, SlugSecret};
use crate::values::timestamp::UnixMillis;

#[async_trait]
pub trait PageStore: Send + Sync {
    /// Derives slugs from clients' keys; the same at every replica.
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError>;

    /// The record under `slug`, not older than the start of this call.
    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError>;

    /// For OpenTelemetry (`db.system.name`).
    fn system(&self) -> Option<&'static str> {
        None
    }

    /// Tells `listener` of each change of a page from now on, and need not tell of an insert. Returns whether the store can:
    /// other processes may change its pages. A store has one listener.
    fn subscribe(&self, _listener: Arc<dyn ChangeListener>) -> bool {
        false
    }

    /// As [`PageStore::lookup`], without the text.
    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        Ok(self.lookup(slug).await?.map(|page| page.head.clone()))
    }

    /// Stores `next` if its slug has what is `expected`. A tombstone, and a page that this hides or shows, is in the
    /// journal before the change is made: without its line nothing is changed.
    async fn put(&self, expected: Expected, next: Record, needed_by: Option<Instant>) -> Result<PutResult, StoreError>;
}

/// The switch with which operators pause creates. It survives restarts; every replica reads it again and again.
#[async_trait]
pub trait CreatesSwitch: Send + Sync {
    /// False if creates were never paused.
    async fn paused(&self) -> Result<bool, StoreError>;

    /// Durable after `Ok`, and known to every replica within a second.
    async fn set_paused(&self, paused: bool) -> Result<(), StoreError>;
}

/// The condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The slug was never used.
    Absent,
    /// A page, hidden or not, of this version.
    Version(PageVersion),
    /// A page in this state: an import may meet two records of one version.
    State(PageState),
    /// A record that [cannot be read](StoreError::Unreadable). A store that can repair the record from its copies refuses.
    Unreadable,
}

impl Expected {
    pub fn is_met_by(self, state: PageState) -> bool {
        match self {
            Self::Version(version) => version == state.version,
            Self::State(expected) => expected == state,
            Self::Absent | Self::Unreadable => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutResult {
    Done,
    /// The slug has something else than was expected; nothing was changed.
    Refused,
}

/// A cache of pages that must not outlive their changes.
pub trait ChangeListener: Send + Sync {
    /// Called before a change. Until the returned value is dropped, when the outcome is known, nothing is kept of the pages
    /// under `slugs`. Nothing that was read before that is kept later. Changes of one page must not overlap: the end of the
    /// second would end the first.
    fn change<'a>(&'a self, slugs: &[&Slug]) -> Box<dyn Send + 'a>;
}

/// Bytes of a record besides its text.
const RECORD_BYTES: usize = 200;

/// What a used slug has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Active(Arc<Page>),
    Deleted(Tombstone),
}

impl Record {
    pub fn slug(&self) -> &Slug {
        match self {
            Self::Active(page) => &page.head.slug,
            Self::Deleted(tombstone) => &tombstone.slug,
        }
    }

    /// When its last change was made.
    pub fn changed_at(&self) -> UnixMillis {
        match self {
            Self::Active(page) => page.head.updated_at,
            Self::Deleted(tombstone) => tombstone.deleted_at,
        }
    }

    /// The line that the journal must have before this record is stored; `None` if that is no act. `was_hidden` says
    /// whether it takes the place of a hidden page.
    pub fn journal_line(&self, was_hidden: bool) -> Option<Line> {
        match self {
            Self::Active(page) if was_hidden || page.head.hidden.is_some() => Some(Line::of_head(&page.head)),
            Self::Active(_) => None,
            Self::Deleted(tombstone) => Some(Line::of_tombstone(tombstone)),
        }
    }

    /// In memory, about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Active(page) => RECORD_BYTES + page.text.content.as_str().len() + page.text.html.len(),
            Self::Deleted(_) => RECORD_BYTES,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<T = Arc<Page>> {
    Active(T),
    /// Operators have hidden the page: to everybody else it is deleted.
    Hidden(T),
    Deleted(Tombstone),
    Absent,
}

impl<T> Lookup<T> {
    pub fn map<U>(self, shown: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::Active(page) => Lookup::Active(shown(page)),
            Self::Hidden(page) => Lookup::Hidden(shown(page)),
            Self::Deleted(tombstone) => Lookup::Deleted(tombstone),
            Self::Absent => Lookup::Absent,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Active(_) => "active",
            Self::Hidden(_) => "hidden",
            Self::Deleted(_) => "deleted",
            Self::Absent => "absent",
        }
    }
}

impl Lookup {
    pub fn head(&self) -> Option<&PageHead> {
        match self {
            Self::Active(page) | Self::Hidden(page) => Some(&page.head),
            Self::Deleted(_) | Self::Absent => None,
        }
    }

    /// The condition of a write that must find exactly this page, or none.
    pub fn expected(&self) -> Expected {
        self.head().map_or(Expected::Absent, |head| Expected::State(head.state()))
    }

    /// The record that repeats `act` of the journal on a restored store; `None` if the page is in a later state.
    pub fn replayed(&self, act: Act) -> Option<Record> {
        match (act.on(self.into())?, self) {
            (Act::Delete(tombstone), found) => {
                let created_at = found.head().map_or(tombstone.created_at, |head| head.created_at);
                Some(Record::Deleted(Tombstone { created_at, ..tombstone }))
            }
            (Act::SetHidden { at, hidden, .. }, Self::Active(page) | Self::Hidden(page)) => {
                let head = page.head.restored_with_hidden(hidden, at);
                Some(Record::Active(Arc::new(Page { head, text: page.text.clone() })))
            }
            (Act::SetHidden { .. }, Self::Deleted(_) | Self::Absent) => None,
        }
    }
}

impl From<&Lookup> for Stored {
    fn from(found: &Lookup) -> Self {
        match found {
            Lookup::Active(page) => Self::Active(page.head.state()),
            Lookup::Hidden(page) => Self::Hidden(page.head.state()),
            Lookup::Deleted(_) => Self::Deleted,
            Lookup::Absent => Self::Absent,
        }
    }
}

impl From<Record> for Lookup {
    fn from(record: Record) -> Self {
        match record {
            Record::Active(page) if page.head.hidden.is_some() => Self::Hidden(page),
            Record::Active(page) => Self::Active(page),
            Record::Deleted(tombstone) => Self::Deleted(tombstone),
        }
    }
}

impl From<PageHead> for Lookup<PageHead> {
    fn from(head: PageHead) -> Self {
        if head.hidden.is_some() { Self::Hidden(head) } else { Self::Active(head) }
    }
}

pub type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Error)]
pub enum StoreError {
    /// Out of reach or out of space. Nothing changed.
    #[error("the store is unavailable, nothing was changed")]
    Unavailable(#[source] Cause),
    /// The change was made completely or not at all.
    #[error("the store did not confirm whether the change was made")]
    OutcomeUnknown(#[source] Cause),
    /// This version of Handbill cannot read the record. Nothing changed.
    #[error("the store contains an unreadable record")]
    Unreadable(#[source] Cause),
}

impl StoreError {
    pub fn causes(&self) -> String {
        let first: &dyn std::error::Error = self;
        let causes = iter::successors(Some(first), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}

/// The cause of [`StoreError::Unavailable`] until the store was reached once.
#[derive(Debug, Error)]
#[error("the database has not been reached yet")]
pub struct NotReachedError;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::content::Content;
    use crate::values::edit_key::EditKeyHash;
    use crate::values::markdown::render;
    use crate::values::title::Title;

    #[test]
    fn a_repeated_deletion_keeps_when_its_page_was_created() {
        let [created, deleted] = [10, 30].map(UnixMillis::new);
        let slug = Slug::parse("a-page-22222222").unwrap();
        let title = Title::parse("A page").unwrap();
        let head = PageHead::first(slug.clone(), title, EditKeyHash::from_bytes([0; 32]), created);
        let found = Lookup::Active(Arc::new(Page::new(head, Content::parse("text").unwrap(), render("text"))));
        let version = PageVersion::new(2);
        let line = Tombstone { slug, version, created_at: deleted, deleted_at: deleted, takedown: None };
        let expected = Tombstone { created_at: created, ..line.clone() };
        assert_eq!(found.replayed(Act::Delete(line.clone())), Some(Record::Deleted(expected)));
        assert_eq!(Lookup::Absent.replayed(Act::Delete(line.clone())), Some(Record::Deleted(line)));
    }
}
