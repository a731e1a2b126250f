//! `GET /backup`: a copy of the SQLite store, piece by piece.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::api::{AdminApi, Refusal, ServedStore};

/// Bytes of a piece.
const PIECE: usize = 256 * 1024;

/// The time of the last backup is kept once all of the copy was taken.
pub(super) async fn copy(State(api): State<Arc<AdminApi>>) -> Result<Body, Refusal> {
    let ServedStore::Sqlite(store) = api.store.clone() else {
        return Err(Refusal::invalid("A cluster is backed up by snapshots of its servers, not by Handbill."));
    };
    let now = api.clock.now();
    let pieces = ReaderStream::with_capacity(File::from_std(store.copy().await?), PIECE);
    // It is polled once the last piece was taken. Its piece is empty, so nothing is sent.
    let end = stream::once(async move {
        match store.note_backup(now).await {
            Ok(()) => {
                api.metrics.last_backup.set(now.get() / 1000);
            }
            Err(error) => tracing::error!(error = error.causes(), "the time of the backup cannot be kept"),
        }
        Ok(Bytes::new())
    });
    Ok(Body::from_stream(pieces.chain(end)))
}
