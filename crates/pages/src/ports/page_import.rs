//! Storage of records that come from another store.
//!
//! New pages are imported with [`PageStore::insert_if_absent`]. Two things cannot be done with the operations of
//! [`PageStore`]: a tombstone for a slug that this store never had, and a replacement of a page by another record of the same
//! version.

use async_trait::async_trait;

use super::page_store::{CasResult, PageStore, Record, StoreError};
use crate::values::page::{PageState, Tombstone};

/// A store that takes records of other stores.
#[async_trait]
pub trait PageImport: PageStore {
    /// Stores `tombstone` unless its slug is taken, by a page or by a tombstone; says whether it is stored. The promises of
    /// [`PageStore`] hold.
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone) -> Result<bool, StoreError>;

    /// Does the same as [`PageStore::compare_and_set`], but only if the page is still in the state `expected`: two records
    /// of one page can have the same version. `next` may have any version.
    async fn replace(&self, expected: PageState, next: Record) -> Result<CasResult, StoreError>;
}
