//! Records for `handbill export` and `handbill inspect`.

use std::sync::Arc;

use axum::{Json, body::Bytes, extract::State};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use super::acts::slug_in;
use super::api::{AdminApi, Refusal, parse};
use handbill_pages::ports::page_scan::{ScanBatch, ScanCursor, ScanLimit};
use handbill_pages::service::Found;
use handbill_pages::values::archive::{ArchivedPage, record_line};
use handbill_pages::values::{
    blocklist::entry_of, link_hosts::link_hosts, markdown::addresses, page::Page, record::Record, slug::Slug,
    timestamp::UnixMillis,
};

/// The size of a batch, which is in memory as a whole.
const BATCH: ScanLimit = ScanLimit { records: 256, bytes: 1024 * 1024 };

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsRequest {
    /// [`RecordBatch::next`] of the previous batch.
    pub after: Option<String>,
    pub since: Option<UnixMillis>,
    pub hidden: bool,
    /// Without deletions.
    pub fields: Vec<Field>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct RecordBatch {
    /// Archive lines, or objects of the wanted fields.
    pub lines: Vec<String>,
    /// `None` after the last batch.
    pub next: Option<String>,
    /// The log names them.
    pub unreadable: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Field {
    Slug,
    Title,
    State,
    Version,
    CreatedAt,
    UpdatedAt,
    /// Of its links, mail links and images, as the blocklist finds them.
    Hosts,
    Excerpt,
    ContentBytes,
    /// The entry of a blocklist that refuses the same text.
    Fingerprint,
    HiddenAt,
    Reason,
    By,
}

pub(super) async fn list(State(api): State<Arc<AdminApi>>, body: Bytes) -> Result<Json<RecordBatch>, Refusal> {
    let wanted: RecordsRequest = parse(&body)?;
    let after = wanted.after.as_ref().map(|text| ScanCursor::from_hex(text).ok_or(NO_CURSOR)).transpose();
    let after = after.map_err(Refusal::invalid)?;
    let batch = api.store.scan(after.as_ref(), BATCH).await?;
    // Finding the links of a page takes CPU.
    let answered = spawn_blocking(move || wanted.answer(batch));
    Ok(Json(answered.await.expect("it does not panic")))
}

const NO_CURSOR: &str = "--after is no cursor of an export.";

impl RecordsRequest {
    fn answer(&self, batch: ScanBatch) -> RecordBatch {
        let mut lines = Vec::new();
        let mut unreadable = 0;
        for record in batch.records {
            match record {
                Ok(record) => lines.extend(self.line(&record)),
                Err(damaged) => {
                    tracing::error!(slug = damaged.name, error = %damaged.cause, "a record cannot be read");
                    unreadable += 1;
                }
            }
        }
        RecordBatch { lines, next: batch.next.map(|next| next.to_hex()), unreadable }
    }

    /// `None` if the record is not wanted.
    fn line(&self, record: &Record) -> Option<String> {
        let is_hidden = matches!(record, Record::Hidden(..));
        if self.since.is_some_and(|since| record.changed_at() < since) || (self.hidden && !is_hidden) {
            return None;
        }
        if self.fields.is_empty() {
            return Some(record_line(&record.as_ref().map(|page| ArchivedPage::from(&**page))));
        }
        let page = record.page()?;
        let fields: Map<_, _> = self.fields.iter().map(|field| field.of(record, page)).collect();
        Some(format!("{}\n", Value::Object(fields)))
    }
}

impl Field {
    fn of(self, record: &Record, page: &Page) -> (String, Value) {
        let (head, takedown) = (&page.head, record.takedown());
        let value = match self {
            Self::Slug => json!(head.slug.as_str()),
            Self::Title => json!(head.state.details.title()),
            Self::State => json!(record.name()),
            Self::Version => json!(head.version.get()),
            Self::CreatedAt => json!(head.created_at),
            Self::UpdatedAt => json!(head.updated_at),
            Self::Hosts => json!(link_hosts(&addresses(page.text.content.as_str()))),
            Self::Excerpt => json!(page.text.excerpt),
            Self::ContentBytes => json!(page.text.content.as_str().len()),
            Self::Fingerprint => json!(entry_of(page.text.content.as_str())),
            Self::HiddenAt => json!(takedown.map(|_| head.changed_at)),
            Self::Reason => json!(takedown.map(|takedown| takedown.reason)),
            Self::By => json!(takedown.map(|takedown| &takedown.by)),
        };
        (self.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned()), value)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InspectRequest {
    /// A slug or an address.
    pub page: String,
}

/// The head as it is stored, with facts about the text; a `state` of `absent` or `unreadable` for what has no head.
pub(super) async fn inspect(State(api): State<Arc<AdminApi>>, body: Bytes) -> Result<Json<Value>, Refusal> {
    let InspectRequest { page } = parse(&body)?;
    let slug = slug_in(&page).map_err(Refusal::invalid)?;
    let found = api.operators.inspect(&slug).await;
    api.count("inspect", if found.is_ok() { "done" } else { "failed" });
    let found = found?;
    // A hostile page takes up to 0.2 s of CPU.
    Ok(Json(spawn_blocking(move || facts(&slug, &found)).await.expect("it does not panic")))
}

fn facts(slug: &Slug, found: &Found) -> Value {
    let record = match found {
        Found::Readable(found) => found.clone(),
        Found::Unreadable { head, reason } => {
            let created_at = head.as_ref().map(|head| head.created_at);
            return json!({"slug": slug, "state": "unreadable", "created_at": created_at, "error": reason.causes()});
        }
    };
    let Some(record) = record else { return json!({"slug": slug, "state": "absent"}) };
    let mut facts = json!(record.head());
    if let (Some(page), Some(facts)) = (record.page(), facts.as_object_mut()) {
        facts.remove("key_sha256");
        facts.extend([Field::Hosts, Field::ContentBytes, Field::Fingerprint].map(|field| field.of(&record, page)));
    }
    facts
}
