//! The storage of pages: atomic operations on one page each.
//!
//! The contract (`tests/it/contract/`):
//!
//! * After `Ok`, an operation is durable, and every later lookup at any replica sees its effect or something newer.
//! * The store alone decides who gets a slug, and an inserted slug is never free again: a deleted page leaves a
//!   tombstone.
//! * A write sets the whole record. What this version does not know of a head is stored as it came.
//! * A caller that stops waiting breaks nothing. Its operation is then done completely or not at all.
//!
//! `needed_by` is when a write's caller needs the answer, so that a store can say in time whether anything changed.
//! Reads have no such time, because requests share them.

use std::{iter, sync::Arc};

use async_trait::async_trait;
use thiserror::Error;
use tokio::time::Instant;

use crate::values::head::{Head, PageHead, PageVersion};
use crate::values::slug::{Slug, SlugSecret};
use crate::values::{record::Record, timestamp::UnixMillis};

#[async_trait]
pub trait PageStore: Send + Sync {
    /// Derives slugs from clients' keys; the same at every replica.
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError>;

    /// The record under `slug`, not older than the start of this call.
    async fn lookup(&self, slug: &Slug) -> Result<Option<Record>, StoreError>;

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
    async fn head(&self, slug: &Slug) -> Result<Option<Record<PageHead>>, StoreError> {
        Ok(self.lookup(slug).await?.map(|found| found.map(|page| page.head.clone())))
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
    /// A page, hidden or not, of this version that was last written at this time. A version alone names no state: an import may
    /// bring another of the same version.
    State(PageVersion, UnixMillis),
    /// A record that [cannot be read](StoreError::Unreadable). A store that can repair the record from its copies refuses.
    Unreadable,
}

impl Expected {
    /// Exactly the page with this head.
    pub fn page<S>(head: &Head<S>) -> Self {
        Self::State(head.version, head.changed_at)
    }

    /// Exactly what was found under a slug that is not deleted.
    pub fn found(found: Option<&Head>) -> Self {
        found.map_or(Self::Absent, Self::page)
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
