//! Storage of records that come from another store.
//!
//! Pages are imported with the operations of [`PageStore`]. Only one thing cannot be done with these: a tombstone for a
//! slug that this store never had.

use async_trait::async_trait;

use super::page_store::{InsertResult, PageStore, StoreError};
use crate::domain::page::Tombstone;

/// A store that takes tombstones of other stores.
#[async_trait]
pub trait PageImport: PageStore {
    /// Stores `tombstone` unless its slug is taken, by a page or by a tombstone. The promises of [`PageStore`] hold.
    async fn insert_tombstone_if_absent(&self, tombstone: Tombstone) -> Result<InsertResult, StoreError>;
}
