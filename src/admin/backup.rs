//! What a restore needs: `POST /backup` sends a copy of the SQLite store, and `POST /journal` the journal.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::api::{AdminApi, Refusal};
use handbill_pages::ports::operated_store::Journal;
use handbill_pages::ports::page_store::StoreError;

/// Bytes of a backup that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Sends a copy piece by piece, and notes the time of the backup once all of the copy was read.
pub(super) async fn send_copy(State(api): State<Arc<AdminApi>>) -> Result<Body, Refusal> {
    let now = api.clock.now();
    let copied = api.store.copy().await.map_err(|error| {
        tracing::error!(error = error.causes(), "the store cannot be copied");
        Refusal::unavailable(format!(
            "cannot copy the store: {}; the data directory needs room for a second copy of the database",
            error.causes()
        ))
    })?;
    let none = || Refusal::invalid("A cluster is backed up by snapshots of its servers, not by Handbill.");
    let pieces = ReaderStream::with_capacity(File::from_std(copied.ok_or_else(none)?), CHUNK_BYTES);
    // Polled after the last piece; its own piece is empty.
    let end = stream::once(async move {
        match api.store.note_backup(now).await {
            Ok(()) => {
                api.metrics.last_backup.set(now.get() / 1000);
            }
            Err(error) => tracing::error!(error = error.causes(), "the time of the backup cannot be kept"),
        }
        Ok(Bytes::new())
    });
    Ok(Body::from_stream(pieces.chain(end)))
}

/// Sends the journal for `handbill export --journal`.
pub(super) async fn send_journal(State(api): State<Arc<AdminApi>>) -> Result<Body, Refusal> {
    Ok(match api.store.journal().await? {
        Journal::File(path) => {
            let file = File::open(path).await;
            Body::from_stream(ReaderStream::new(file.map_err(|error| StoreError::Unavailable(error.into()))?))
        }
        Journal::Lines(lines) => Body::from_stream(lines.map(|line| {
            let text = serde_json::to_string(&line?).map_err(|error| StoreError::Unreadable(error.into()))?;
            Ok::<_, StoreError>(format!("{text}\n"))
        })),
    })
}
