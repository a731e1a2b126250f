//! Storage of records that come from another store.
//!
//! New pages are imported with [`PageStore::insert_if_absent`]. Two things cannot be done with the operations of
//! [`PageStore`]: a tombstone for a slug that this store never had, and a replacement of a page by another record of the same
//! version.
//!
//! `now` is the time of the import. The tombstone of an archive can be much older than the texts that the store has or is
//! about to get, so a store that orders writes by time deletes these as of `now`.
//!
//! The ledger may know that operators have hidden a page which is not in the store, because a backup is older than the page.
//! An import asks it, so that it never shows such a page.

use async_trait::async_trait;

use super::page_store::{CasResult, PageStore, Record, StoreError};
use crate::domain::page::{PageState, Tombstone};
use crate::domain::slug::Slug;
use crate::domain::takedown::Visibility;
use crate::domain::timestamp::UnixMillis;

/// A store that takes records of other stores, and keeps the ledger of their deletions.
#[async_trait]
pub trait PageImport: PageStore {
    /// Stores `tombstone` unless its slug is taken, by a page or by a tombstone; says whether it is stored. The promises of
    /// [`PageStore`] hold.
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone, now: UnixMillis) -> Result<bool, StoreError>;

    /// Does the same as [`PageStore::compare_and_set`], but only if the page is still in the state `expected`: two records
    /// of one page can have the same version. `next` may have any version.
    async fn replace(&self, expected: PageState, next: Record, now: UnixMillis) -> Result<CasResult, StoreError>;

    /// The last act of operators on the page under `slug`, as far as the ledger has it: whether they hid it or showed it again.
    async fn visibility(&self, slug: &Slug) -> Result<Option<Visibility>, StoreError>;

    /// Enters `visibility` in the ledger unless its page was deleted or operators did something later; says whether that
    /// changes what the ledger says. A page that is in the store stays as it is.
    async fn keep_visibility(&self, visibility: Visibility) -> Result<bool, StoreError>;
}
