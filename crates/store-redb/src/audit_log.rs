//! [`AuditLog`] on the embedded store.

use async_trait::async_trait;

use super::audit;
use super::panics::caught;
use super::shared::{DbState, Shared, cause};
use super::store::RedbStore;
use super::tables::Operation;
use crate::domain::audit::{AuditEntry, NumberedEntry};
use crate::ports::audit_log::{AuditLog, MAX_ENTRIES};
use crate::ports::page_store::StoreError;

fn read(shared: &Shared, after: u64, limit: usize) -> Result<Vec<NumberedEntry>, StoreError> {
    let found = match &*shared.state() {
        DbState::Writable(database) | DbState::ReadOnly(database, _) => caught(|| audit::list(database, after, limit)),
        DbState::Broken(reason) => return Err(StoreError::Unavailable(cause(reason))),
        DbState::Closed => return Err(StoreError::Unavailable("the store is closed".into())),
    };
    match found {
        Ok(Ok(entries)) => entries,
        Ok(Err(error)) => Err(StoreError::Unavailable(error.into())),
        Err(panicked) => Err(StoreError::Unreadable(panicked.into())),
    }
}

#[async_trait]
impl AuditLog for RedbStore {
    async fn append(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.write(Operation::Audit(entry)).await.map(|_done| ())
    }

    async fn list(&self, after: u64, limit: usize) -> Result<Vec<NumberedEntry>, StoreError> {
        self.read_blocking(move |shared| read(shared, after, limit.min(MAX_ENTRIES))).await
    }
}
