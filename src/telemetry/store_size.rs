//! What operators see of the SQLite store: when it was last backed up, and how much it holds.

use std::sync::Arc;

use crate::telemetry::metrics::Metrics;
use handbill_core::domain::counted::counted;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_store_sqlite::{Counts, SqliteStore};

/// Shows that `store` is open, and its last backup.
pub async fn follow_store(store: &Arc<SqliteStore>, metrics: &Arc<Metrics>) {
    metrics.calls.store_available.set(1);
    if let Ok(Some(time)) = store.last_backup().await {
        show_backup(metrics, time);
    }
}

/// Shows `time` as that of the last backup.
pub fn show_backup(metrics: &Metrics, time: UnixMillis) {
    metrics.last_backup.set(time.get() / 1000);
}

/// The number of records in `store`, as text for operators: they see at once when it is another store than they expect.
pub async fn contents(store: &SqliteStore) -> String {
    match store.counts().await {
        Ok(Counts { pages, hidden, deletions }) => {
            let hidden = if hidden > 0 { format!(" of which {hidden} hidden,") } else { String::new() };
            format!("{},{hidden} {}", counted(pages, "page"), counted(deletions, "deletion"))
        }
        Err(error) => error.to_string(),
    }
}
