//! What a restore needs: `POST /backup` sends a copy of the SQLite store, and `POST /journal` the journal.

use std::{future::ready, io, sync::Arc};

use axum::{Json, body::Body, extract::State};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::io::ReaderStream;

use super::api::{AdminApi, Refusal, parse};
use handbill_pages::ports::{operated_store::ExportedJournal, page_store::StoreError};
use handbill_pages::values::{journal::Line, timestamp::UnixMillis};

/// Bytes of a backup that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Sends a copy piece by piece.
pub(super) async fn send_copy(State(api): State<Arc<AdminApi>>) -> Result<Body, Refusal> {
    let copied = api.store.copy().await.map_err(|error| {
        tracing::error!(error = error.causes(), "the store cannot be copied");
        Refusal::unavailable(format!(
            "cannot copy the store: {}; the data directory needs room for a second copy of the database",
            error.causes()
        ))
    })?;
    let Some(copy) = copied else {
        return Err(Refusal::invalid("A cluster is backed up by snapshots of its servers, not by Handbill."));
    };
    Ok(Body::from_stream(ReaderStream::with_capacity(File::from_std(copy), CHUNK_BYTES)))
}

/// Sent by the command once it has written all of the copy. Only the command knows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WholeBackup {
    pub began: UnixMillis,
}

pub(super) async fn note_whole(State(api): State<Arc<AdminApi>>, body: Bytes) -> Result<Json<()>, Refusal> {
    let WholeBackup { began } = parse(&body)?;
    api.store.note_backup(began).await?;
    api.metrics.last_backup.set(began.get() / 1000);
    Ok(Json(()))
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalRequest {
    pub since: Option<UnixMillis>,
}

/// Sends the journal for `handbill export --journal`.
pub(super) async fn send_journal(State(api): State<Arc<AdminApi>>, body: Bytes) -> Result<Body, Refusal> {
    let JournalRequest { since } = parse(&body)?;
    Ok(match api.store.journal(since).await? {
        ExportedJournal::File(path) => {
            let file = File::open(path).await.map_err(|error| StoreError::Unavailable(error.into()))?;
            let lines = stream::try_unfold(BufReader::new(file).lines(), async |mut lines| {
                let line = lines.next_line().await?;
                Ok::<_, io::Error>(line.map(|line| (line, lines)))
            });
            Body::from_stream(lines.try_filter_map(move |line| {
                // A damaged line may be of any time.
                let is_wanted = since.is_none_or(|since| written(&line).is_none_or(|at| at >= since));
                ready(Ok(is_wanted.then(|| format!("{line}\n"))))
            }))
        }
        ExportedJournal::Lines(lines) => Body::from_stream(lines.map(|line| {
            let text = serde_json::to_string(&line?).map_err(|error| StoreError::Unreadable(error.into()))?;
            Ok::<_, StoreError>(format!("{text}\n"))
        })),
    })
}

fn written(line: &str) -> Option<UnixMillis> {
    UnixMillis::parse(&serde_json::from_str::<Line>(line).ok()?.at)
}
