//! [`AuditLog`] on the embedded store.

use async_trait::async_trait;

use super::audit;
use super::reading::on_database;
use super::store::RedbStore;
use super::tables::Operation;
use crate::domain::audit::{AuditEntry, NumberedEntry};
use crate::ports::audit_log::{AuditLog, MAX_ENTRIES};
use crate::ports::page_store::StoreError;

#[async_trait]
impl AuditLog for RedbStore {
    async fn append(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.write(Operation::Audit(entry)).await.map(|_done| ())
    }

    async fn list(&self, after: u64, limit: usize) -> Result<Vec<NumberedEntry>, StoreError> {
        let limit = limit.min(MAX_ENTRIES);
        self.read_blocking(move |shared| on_database(shared, |database| audit::list(database, after, limit))?).await
    }
}
