//! The storage of pages: operations on one page each, all of them atomic.
//!
//! The contract, which `tests/it/contract/` checks for every backend:
//!
//! * An operation that returned `Ok` is durable, and every later lookup, at any replica, sees its effect or something
//!   newer.
//! * The store alone decides who gets a slug. Once inserted, a slug is never free again: a deleted page leaves a
//!   tombstone.
//! * A page with a head that is [hidden](PageHead::hidden) is stored like any other and looked up as [`Lookup::Hidden`], and
//!   only [`PageStore::page`] and a scan still have its text.
//! * A caller that stops waiting breaks nothing. Its operation is then done completely or not at all.
//!
//! A write is told when its caller needs the answer: `needed_by`. A store that heeds it sends nothing whose answer nobody
//! would wait for, and can say whether anything was changed while its caller still listens. Without it a write has the
//! store's own limits only. So have all reads, because requests share them.

use std::iter;
use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;
use tokio::time::Instant;

use crate::values::archive::Stored;
use crate::values::page::{Page, PageHead, PageVersion, Tombstone};
use crate::values::slug::Slug;
use crate::values::slug_secret::SlugSecret;

/// A store of pages.
#[async_trait]
pub trait PageStore: Send + Sync {
    /// The secret from which slugs of pages with keys of clients are derived: the same at every replica, whenever it is asked.
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError>;

    /// Stores `page` unless its slug is taken, by a page or by a tombstone.
    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError>;

    /// The record under `slug`, not older than the start of this call.
    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError>;

    /// The database that keeps the pages, as OpenTelemetry names it (`db.system.name`).
    fn system(&self) -> Option<&'static str> {
        None
    }

    /// How records are read best.
    fn access(&self) -> Access;

    /// The mark of the page under `slug`, which changes whenever the page may have changed. What a caller made of a lookup that
    /// began after it took the mark is current as long as the slug has that mark. `None` while the page may be changing, and always
    /// for a store whose pages others change without its knowledge.
    fn mark(&self, _slug: &Slug) -> Option<u64> {
        None
    }

    /// The head of the record under `slug`, not older than the start of this call.
    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        Ok(self.lookup(slug).await?.map(|page| page.head.clone()))
    }

    /// The whole page of `head`, hidden or not, which this store has returned. `None` if the page was changed or deleted since: only a new
    /// head or lookup then shows the page's present state. A store may still have the page of the older head.
    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError>;

    /// Stores `next` in place of the page with the same slug, if that page still has the version `expected`. The journal has a
    /// tombstone, or a page that this hides or shows, before the change is made: without its line nothing is changed.
    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError>;

    /// Puts `tombstone` in the place of a record that [cannot be read](StoreError::Unreadable), as a compare-and-set would in the place
    /// of a page; [`CasResult::Stale`] if its slug has no record, or one that can be read. A store whose records have copies leaves
    /// this to a repair from them, and answers that the record cannot be read.
    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError>;
}

/// How the records of a store are read best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As a whole.
    Whole,
    /// The head first, and the page only if its text is still needed: the store keeps texts apart from heads, so that a head
    /// costs much less than a lookup.
    HeadFirst,
}

/// The record of a slug that was inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A page that can be read, unless its head is hidden.
    Active(Arc<Page>),
    /// A page that was deleted.
    Deleted(Tombstone),
}

impl Record {
    /// The slug of the record.
    pub fn slug(&self) -> &Slug {
        match self {
            Self::Active(page) => &page.head.slug,
            Self::Deleted(tombstone) => &tombstone.slug,
        }
    }
}

/// The answer to a read of a page, or of its head. An absent page is an answer, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<T = Arc<Page>> {
    /// The page can be read.
    Active(T),
    /// Operators have hidden the page: to everybody else it is deleted.
    Hidden(Box<PageHead>),
    /// The page was deleted.
    Deleted(Tombstone),
    /// The slug was never used.
    Absent,
}

impl<T> Lookup<T> {
    /// This answer, with what `shown` makes of the page.
    pub fn map<U>(self, shown: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::Active(page) => Lookup::Active(shown(page)),
            Self::Hidden(head) => Lookup::Hidden(head),
            Self::Deleted(tombstone) => Lookup::Deleted(tombstone),
            Self::Absent => Lookup::Absent,
        }
    }

    /// The name of this answer in metrics and spans.
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
    /// The head of the page, hidden or not, if there is one.
    pub fn head(&self) -> Option<&PageHead> {
        match self {
            Self::Active(page) => Some(&page.head),
            Self::Hidden(head) => Some(head),
            Self::Deleted(_) | Self::Absent => None,
        }
    }
}

impl From<&Lookup> for Stored {
    fn from(found: &Lookup) -> Self {
        match found {
            Lookup::Active(page) => Self::Active(page.head.state()),
            Lookup::Hidden(head) => Self::Hidden(head.state()),
            Lookup::Deleted(_) => Self::Deleted,
            Lookup::Absent => Self::Absent,
        }
    }
}

impl From<Record> for Lookup {
    fn from(record: Record) -> Self {
        match record {
            Record::Active(page) if page.head.hidden.is_some() => Self::Hidden(Box::new(page.head.clone())),
            Record::Active(page) => Self::Active(page),
            Record::Deleted(tombstone) => Self::Deleted(tombstone),
        }
    }
}

impl From<PageHead> for Lookup<PageHead> {
    fn from(head: PageHead) -> Self {
        if head.hidden.is_some() { Self::Hidden(Box::new(head)) } else { Self::Active(head) }
    }
}

/// The answer to an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertResult {
    /// The page is stored.
    Inserted,
    /// The slug was taken; nothing was changed. The record under it is not older than the refusal. A hidden page is given as
    /// its tombstone.
    SlugTaken(Record),
}

impl InsertResult {
    /// The answer to an insert that was refused, if `found` is under its slug since.
    pub fn refused(found: Lookup) -> Result<Self, StoreError> {
        match found {
            Lookup::Active(page) => Ok(Self::SlugTaken(Record::Active(page))),
            Lookup::Hidden(head) => Ok(Self::SlugTaken(Record::Deleted(head.as_tombstone()))),
            Lookup::Deleted(tombstone) => Ok(Self::SlugTaken(Record::Deleted(tombstone))),
            Lookup::Absent => Err(StoreError::Unreadable("a taken slug has no record".into())),
        }
    }
}

/// The answer to a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CasResult {
    /// The change is stored.
    Swapped,
    /// The page has another version, is deleted or was never there; nothing was changed.
    Stale,
}

/// The error inside a backend.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation has no answer.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The store cannot be reached or is out of space. Nothing was changed.
    #[error("the store is unavailable, nothing was changed")]
    Unavailable(#[source] Cause),
    /// The change may or may not have been made, but never in part.
    #[error("the store did not confirm whether the change was made")]
    OutcomeUnknown(#[source] Cause),
    /// The store contains a record that this version of Handbill cannot read. Nothing was changed.
    #[error("the store contains an unreadable record")]
    Unreadable(#[source] Cause),
}

impl StoreError {
    /// The error and all its causes, in one line.
    pub fn causes(&self) -> String {
        let first: &dyn std::error::Error = self;
        let causes = iter::successors(Some(first), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}

/// The cause of [`StoreError::Unavailable`] before a process has reached its store for the first time.
#[derive(Debug, Error)]
#[error("the database has not been reached yet")]
pub struct NotReachedError;
