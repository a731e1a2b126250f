//! The append-only list of what operators did.
//!
//! A takedown is appended by [`super::page_store::PageStore::compare_and_set`] itself, with the tombstone, so that
//! neither exists without the other. This port appends everything else, and lists. It also knows the ledger of deletions,
//! which a restore replays: the store writes it after each deletion, and does not refuse a deletion if it cannot.

use async_trait::async_trait;

use super::page_store::StoreError;
use crate::domain::audit::{AuditEntry, NumberedEntry};

/// The most entries that one call returns.
pub const MAX_ENTRIES: usize = 1000;

/// A list that can be appended to and read. Nothing in it is ever changed or removed.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends `entry`. An `Ok` means that it is durable.
    async fn append(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// The first entries after the number `after`, oldest first, at most `limit` and [`MAX_ENTRIES`], and the rest of those
    /// that share the last one's number. No entries mean the end of the list.
    async fn list(&self, after: u64, limit: usize) -> Result<Vec<NumberedEntry>, StoreError>;
}
