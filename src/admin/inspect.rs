//! What is known of pages, without their text and without anything of their keys.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::acts::slug_in;
use super::api::{AdminApi, Refusal, parse};
use super::blocklist;
use handbill_core::domain::link_hosts::link_hosts;
use handbill_core::domain::markdown::render;
use handbill_core::domain::page::Page;
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::Takedown;
use handbill_core::service::Found;

/// The body of `POST /inspect`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InspectRequest {
    /// The slug or an address of a page.
    pub page: String,
}

/// What is known of one page.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Inspection {
    pub slug: String,
    /// `active`, `hidden`, `deleted`, `absent`, or `unreadable`.
    pub state: String,
    /// Why the record cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_at: Option<String>,
    /// Why and by whom the page was taken down or hidden, if an operator did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takedown: Option<Takedown>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub page: Option<PageFacts>,
}

/// The facts of a page, perhaps hidden.
#[derive(Debug, Serialize, Deserialize)]
pub struct PageFacts {
    /// `None` if an update cleared it.
    pub title: Option<String>,
    /// The beginning of the text.
    pub excerpt: String,
    pub updated_at: String,
    /// How often the page was written.
    pub version: u64,
    /// Size of the Markdown, in bytes.
    pub content_bytes: usize,
    /// The hosts of its links and images.
    pub hosts: Vec<String>,
    /// The entry for `--blocklist-file` that refuses the same text.
    pub fingerprint: String,
}

pub(super) async fn inspect(State(api): State<Arc<AdminApi>>, body: Bytes) -> Result<Json<Inspection>, Refusal> {
    let InspectRequest { page } = parse(&body)?;
    let slug = slug_in(&page).map_err(Refusal::invalid)?;
    let found = api.operators.inspect(&slug).await;
    api.count("inspect", if found.is_ok() { "done" } else { "failed" });
    let found = found?;
    // A hostile page takes up to 0.2 s of CPU.
    Ok(Json(spawn_blocking(move || Inspection::of(&slug, &found)).await.expect("it does not panic")))
}

impl Inspection {
    fn of(slug: &Slug, found: &Found) -> Self {
        let some = |time: &dyn ToString| Some(time.to_string());
        let (state, facts) = match found {
            Found::Page(page) => {
                let head = &page.head;
                let hidden_at = head.hidden.as_ref().and_then(|_| some(&head.updated_at));
                let state = if hidden_at.is_some() { "hidden" } else { "active" };
                let takedown = head.hidden.as_deref().cloned();
                let created_at = some(&head.created_at);
                (state, Self { hidden_at, takedown, created_at, page: Some(PageFacts::of(page)), ..Self::default() })
            }
            Found::Deleted(tombstone) => {
                let [created_at, deleted_at] = [tombstone.created_at, tombstone.deleted_at].map(|time| some(&time));
                let takedown = tombstone.takedown.clone();
                ("deleted", Self { created_at, deleted_at, takedown, ..Self::default() })
            }
            Found::Absent => ("absent", Self::default()),
            Found::Unreadable(head, reason) => {
                let created_at = head.as_ref().and_then(|head| some(&head.created_at));
                ("unreadable", Self { error: Some(reason.causes()), created_at, ..Self::default() })
            }
        };
        Self { slug: slug.to_string(), state: state.to_owned(), ..facts }
    }
}

impl PageFacts {
    fn of(page: &Page) -> Self {
        let content = page.text.content.as_str();
        Self {
            title: page.head.title.as_ref().map(|title| title.as_str().to_owned()),
            excerpt: page.text.excerpt.clone(),
            updated_at: page.head.updated_at.to_string(),
            version: page.head.version.get(),
            content_bytes: content.len(),
            hosts: link_hosts(&render(content).shown.addresses).into_iter().collect(),
            fingerprint: blocklist::entry_of(content),
        }
    }
}
