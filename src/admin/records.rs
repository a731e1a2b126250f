//! Records for `handbill export` and `handbill inspect`.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use super::acts::slug_in;
use super::api::{AdminApi, Refusal, parse};
use super::blocklist::entry_of;
use handbill_pages::ports::page_scan::{ScanBatch, ScanCursor, ScanLimit};
use handbill_pages::ports::page_store::Record;
use handbill_pages::service::Found;
use handbill_pages::values::archive::{Entry, entry_line};
use handbill_pages::values::link_hosts::link_hosts;
use handbill_pages::values::markdown::addresses;
use handbill_pages::values::page::Page;
use handbill_pages::values::slug::Slug;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_pages::values::title::Title;

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
    let cursor = |text: &String| {
        ScanCursor::from_hex(text).ok_or_else(|| Refusal::invalid("--after is no cursor of an export."))
    };
    let after = wanted.after.as_ref().map(cursor).transpose()?;
    let batch = api.store.scan(after.as_ref(), BATCH).await?;
    // Finding the links of a page takes CPU.
    let answered = spawn_blocking(move || wanted.answer(batch));
    Ok(Json(answered.await.expect("it does not panic")))
}

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
        let (changed_at, is_hidden) = match record {
            Record::Active(page) => (page.head.updated_at, page.head.hidden.is_some()),
            Record::Deleted(tombstone) => (tombstone.deleted_at, false),
        };
        if self.since.is_some_and(|since| changed_at < since) || (self.hidden && !is_hidden) {
            return None;
        }
        match record {
            Record::Active(page) if self.fields.is_empty() => Some(entry_line(&Entry::of(page))),
            Record::Active(page) => Some(format!(
                "{}\n",
                Value::Object(self.fields.iter().map(|field| field.of(page)).collect::<Map<_, _>>())
            )),
            Record::Deleted(tombstone) => {
                self.fields.is_empty().then(|| entry_line(&Entry::Tombstone(tombstone.clone())))
            }
        }
    }
}

impl Field {
    pub(super) fn of(self, page: &Page) -> (String, Value) {
        let (head, hidden) = (&page.head, page.head.hidden.as_deref());
        let value = match self {
            Self::Slug => json!(head.slug.as_str()),
            Self::Title => json!(head.title.as_ref().map(Title::as_str)),
            Self::State => json!(if hidden.is_some() { "hidden" } else { "active" }),
            Self::Version => json!(head.version.get()),
            Self::CreatedAt => json!(head.created_at.to_string()),
            Self::UpdatedAt => json!(head.updated_at.to_string()),
            Self::Hosts => json!(link_hosts(&addresses(page.text.content.as_str()))),
            Self::Excerpt => json!(page.text.excerpt),
            Self::ContentBytes => json!(page.text.content.as_str().len()),
            Self::Fingerprint => json!(entry_of(page.text.content.as_str())),
            Self::HiddenAt => json!(hidden.map(|_| head.updated_at.to_string())),
            Self::Reason => json!(hidden.map(|takedown| takedown.reason)),
            Self::By => json!(hidden.map(|takedown| &takedown.by)),
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

/// The object's `state` is `active`, `hidden`, `deleted`, `absent` or `unreadable`.
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
    let slug = slug.as_str();
    match found {
        Found::Page(page) => {
            let shown = Field::value_variants().iter().filter(|&&field| field != Field::Excerpt);
            shown.map(|field| field.of(page)).collect()
        }
        Found::Deleted(tombstone) => {
            let [created_at, deleted_at] = [tombstone.created_at, tombstone.deleted_at].map(|time| time.to_string());
            let takedown = tombstone.takedown.as_ref();
            let reason = takedown.map(|takedown| takedown.reason);
            let by = takedown.map(|takedown| &takedown.by);
            json!({"slug": slug, "state": "deleted", "created_at": created_at, "deleted_at": deleted_at, "reason": reason, "by": by})
        }
        Found::Absent => json!({"slug": slug, "state": "absent"}),
        Found::Unreadable(head, reason) => {
            let created_at = head.as_ref().map(|head| head.created_at.to_string());
            json!({"slug": slug, "state": "unreadable", "created_at": created_at, "error": reason.causes()})
        }
    }
}
