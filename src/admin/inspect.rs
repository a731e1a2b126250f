//! What is known of pages, without text and keys.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::acts::slug_in;
use super::api::{AdminApi, Refusal, parse};
use super::records::Field;
use handbill_pages::service::Found;
use handbill_pages::values::slug::Slug;

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
            let (reason, by) = (takedown.map(|takedown| takedown.reason), takedown.map(|takedown| &takedown.by));
            json!({"slug": slug, "state": "deleted", "created_at": created_at, "deleted_at": deleted_at, "reason": reason, "by": by})
        }
        Found::Absent => json!({"slug": slug, "state": "absent"}),
        Found::Unreadable(head, reason) => {
            let created_at = head.as_ref().map(|head| head.created_at.to_string());
            json!({"slug": slug, "state": "unreadable", "created_at": created_at, "error": reason.causes()})
        }
    }
}
