//! Imports of records from another store.
//!
//! New pages use [`PageStore::insert_if_absent`]. These operations also store tombstones for unknown slugs, and replace
//! a page by a record of the same version.

use async_trait::async_trait;

use super::page_store::{CasResult, PageStore, Record, StoreError};
use crate::values::page::{PageState, Tombstone};

#[async_trait]
pub trait PageImport: PageStore {
    /// Stores `tombstone` unless a page or tombstone has its slug; returns whether it did.
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone) -> Result<bool, StoreError>;

    /// Like [`PageStore::compare_and_set`], but the page must have the state `expected`: versions of restored pages
    /// repeat. `next` may have any version.
    async fn replace(&self, expected: PageState, next: Record) -> Result<CasResult, StoreError>;
}
