//! The storage of pages: atomic operations on one page each.
//!
//! The contract, which `tests/it/contract/` checks for every backend:
//!
//! * After `Ok`, an operation is durable, and every later lookup at any replica sees its effect or something newer.
//! * The store alone decides who gets a slug, and an inserted slug is never free again: a deleted page leaves a
//!   tombstone.
//! * A [hidden](PageHead::hidden) page is looked up as [`Lookup::Hidden`]; only [`PageStore::page`] and a scan have its
//!   text.
//! * If the caller stops waiting, the operation is done completely or not at all.
//!
//! `needed_by` is when a write's caller needs the answer, so that a store can say in time whether anything changed.
//! Reads have no such time, because requests share them.

use std::iter;
use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;
use tokio::time::Instant;

use crate::values::archive::Stored;
use crate::values::page::{Page, PageHead, PageVersion, Tombstone};
use crate::values::slug::{Slug, SlugSecret};

#[async_trait]
pub trait PageStore: Send + Sync {
    /// Derives slugs from clients' keys; the same at every replica.
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError>;

    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError>;

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError>;

    /// For OpenTelemetry (`db.system.name`).
    fn system(&self) -> Option<&'static str> {
        None
    }

    /// Changes whenever the page may have changed: a lookup that began after the mark was taken is current while the
    /// mark is the same. `None` while the page may be changing, and if others change pages without the store's
    /// knowledge.
    fn mark(&self, _slug: &Slug) -> Option<u64> {
        None
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        Ok(self.lookup(slug).await?.map(|page| page.head.clone()))
    }

    /// The page of `head`, hidden or not. `None` if the page was changed or deleted since; then read the head again.
    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError>;

    /// Replaces the page with the same slug if it has the version `expected`. A deletion, hiding or showing is in the
    /// journal first, or nothing changes.
    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError>;

    /// Replaces an [unreadable](StoreError::Unreadable) record by `tombstone`; [`CasResult::Stale`] if there is none. A
    /// store with copies returns the error, and leaves the record to a repair.
    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError>;
}

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
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<T = Arc<Page>> {
    Active(T),
    /// For all but operators, this page is deleted.
    Hidden(Box<PageHead>),
    Deleted(Tombstone),
    Absent,
}

impl<T> Lookup<T> {
    pub fn map<U>(self, shown: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::Active(page) => Lookup::Active(shown(page)),
            Self::Hidden(head) => Lookup::Hidden(head),
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertResult {
    Inserted,
    /// Nothing changed. The record is not older than the refusal; a hidden page is given as its tombstone.
    SlugTaken(Record),
}

impl InsertResult {
    /// The answer to a refused insert, where `found` was looked up since.
    pub fn refused(found: Lookup) -> Result<Self, StoreError> {
        match found {
            Lookup::Active(page) => Ok(Self::SlugTaken(Record::Active(page))),
            Lookup::Hidden(head) => Ok(Self::SlugTaken(Record::Deleted(head.as_tombstone()))),
            Lookup::Deleted(tombstone) => Ok(Self::SlugTaken(Record::Deleted(tombstone))),
            Lookup::Absent => Err(StoreError::Unreadable("a taken slug has no record".into())),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CasResult {
    Swapped,
    /// Another version, deleted or absent; nothing changed.
    Stale,
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
    /// In one line.
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
