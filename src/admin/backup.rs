//! `GET /backup`: a copy of the SQLite store, piece by piece.

use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use futures_util::stream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::api::{AdminApi, Refusal};
use crate::telemetry::store_size::show_backup;

/// Bytes of a piece.
const PIECE: u64 = 256 * 1024;

/// The time of the last backup is kept once all of the copy was taken.
pub(super) async fn copy(State(api): State<Arc<AdminApi>>) -> Result<Body, Refusal> {
    let Some(store) = api.sqlite.clone() else {
        return Err(Refusal::invalid("A cluster is backed up by snapshots of its servers, not by Handbill."));
    };
    let now = api.clock.now();
    let mut file = store.copy().await?;
    let (pieces, mut taken) = mpsc::channel::<io::Result<Bytes>>(1);
    let runtime = Handle::current();
    spawn_blocking(move || {
        loop {
            let mut piece = Vec::new();
            let read = (&mut file).take(PIECE).read_to_end(&mut piece);
            if matches!(read, Ok(0)) {
                break;
            }
            let has_failed = read.is_err();
            let sent = pieces.blocking_send(read.map(|_| piece.into()));
            if sent.is_err() || has_failed {
                return;
            }
        }
        // There is room for a further piece once the last one was taken.
        if runtime.block_on(pieces.reserve()).is_err() {
            return;
        }
        match runtime.block_on(store.note_backup(now)) {
            Ok(()) => show_backup(&api.metrics, now),
            Err(error) => tracing::error!(error = error.causes(), "the time of the backup cannot be kept"),
        }
    });
    Ok(Body::from_stream(stream::poll_fn(move |context| taken.poll_recv(context))))
}
