//! Every record of the store, batch by batch: the source of `handbill export`.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

use super::refusal::OperatorsRefusal;
use super::state::OperatorsApi;
use handbill_core::domain::archive::{Entry, entry_line};
use handbill_core::ports::page_scan::{ScanBatch, ScanCursor, ScanLimit};
use handbill_core::ports::page_store::Record;

/// The size of a batch: it is in memory as a whole, and shares the listener with probes.
const BATCH: ScanLimit = ScanLimit { records: 256, bytes: 1024 * 1024 };

#[derive(Debug, Deserialize, Serialize)]
pub struct BatchEnd {
    /// The place at which the next batch begins; nothing after the last one.
    pub next: Option<String>,
    /// Slugs of records that cannot be read.
    pub unreadable: Vec<String>,
    /// About how many records there are in all, if the store knows.
    pub expected_records: Option<u64>,
}

/// `GET /records?after=CURSOR`: the lines of the records as an archive has them, then a line with [`BatchEnd`].
pub(super) async fn list(
    State(api): State<Arc<OperatorsApi>>,
    RawQuery(query): RawQuery,
) -> Result<Response, OperatorsRefusal> {
    let after = match query.as_deref() {
        None => None,
        Some(query) => Some(
            query
                .strip_prefix("after=")
                .and_then(ScanCursor::from_hex)
                .ok_or_else(|| OperatorsRefusal::invalid("The query is `after=CURSOR`, or nothing."))?,
        ),
    };
    let ScanBatch { records, visibilities, next } = api.records.scan(after.as_ref(), BATCH).await?;
    let expected_records = api.records.estimated_records().await?;
    let (mut lines, mut unreadable) = (String::new(), Vec::new());
    for record in records {
        match record {
            Ok(Record::Active(page)) => lines.push_str(&entry_line(&Entry::of(&page))),
            Ok(Record::Deleted(tombstone)) => lines.push_str(&entry_line(&Entry::Tombstone(tombstone))),
            Err(damaged) => {
                tracing::error!(slug = damaged.name, error = %damaged.cause, "a record cannot be read");
                unreadable.push(damaged.name);
            }
        }
    }
    for visibility in visibilities {
        lines.push_str(&entry_line(&Entry::Visibility(visibility)));
    }
    let next = next.map(|next| next.to_hex());
    let end = serde_json::to_string(&BatchEnd { next, unreadable, expected_records });
    lines.push_str(&end.map_err(|_| OperatorsRefusal::internal())?);
    lines.push('\n');
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}
