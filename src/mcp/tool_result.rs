//! The result of a tool: JSON as text, for every client, and again as structured content unless the call failed.
//!
//! The result is written around that JSON and not serialised as a whole, because a page is written while it is sent (see
//! [`StreamedJson`]).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use rmcp::model::RequestId;
use serde::Serialize;
use serde_json::json;

use super::error::tool_error;
use super::representation::{ToolRepresentation, link_to};
use super::tools::GetOptions;
use crate::api::cache_groups;
use crate::api::error::ApiError;
use crate::api::types::{CreatedBody, DeletedBody, Included, JsonParts, Nesting, PageBody, StreamedJson};
use handbill_core::domain::edit_key::PUBLISHED_KEY_WARNING;
use handbill_core::domain::origin::Origin;
use handbill_core::domain::page::Page;
use handbill_core::service::{Created, Kept, PageRead};

pub(super) struct ToolResult {
    json: ToolJson,
    /// The content block that links to the page, as JSON.
    link: Option<Bytes>,
    /// Another content block, as JSON.
    note: Option<Bytes>,
    /// The slug of the page that the call has changed, if it was there before.
    changed: Option<String>,
}

enum ToolJson {
    /// A page, not yet written.
    Page(JsonParts),
    /// A page, written for an earlier call.
    Finished(ToolRepresentation),
    Written(String),
}

impl ToolResult {
    pub(super) fn json(body: &impl Serialize) -> Self {
        Self { json: ToolJson::Written(to_json(body)), link: None, note: None, changed: None }
    }

    pub(super) fn deleted(slug: String) -> Self {
        Self { changed: Some(slug.clone()), ..Self::json(&DeletedBody::new(slug)) }
    }

    /// `page`, which was read, with the texts that `included` names, and a link to it.
    pub(super) fn read(page: &PageRead, base_url: &Origin, included: Included) -> Self {
        match ToolRepresentation::of(page, base_url, included) {
            Some(done) => done.into(),
            None => Self::page(page.share(), base_url, included),
        }
    }

    /// The result that `options` ask for, if it is kept.
    pub(super) fn finished(kept: &Kept, options: &GetOptions) -> Option<Self> {
        ToolRepresentation::kept(kept, options.included()).map(Self::from)
    }

    /// `page` with the texts that `included` names, and a link to it.
    pub(super) fn page(page: Arc<Page>, base_url: &Origin, included: Included) -> Self {
        let link = Some(link_to(&page, base_url));
        Self { json: ToolJson::Page(PageBody::json(page, base_url, included)), link, note: None, changed: None }
    }

    pub(super) fn updated(page: Arc<Page>, base_url: &Origin, included: Included) -> Self {
        let changed = Some(page.head.slug.to_string());
        Self { note: note_on(&page), changed, ..Self::page(page, base_url, included) }
    }

    pub(super) fn created(created: &Created, base_url: &Origin) -> Self {
        let json = ToolJson::Written(to_json(&CreatedBody::new(created, base_url)));
        Self { json, link: Some(link_to(&created.page, base_url)), note: note_on(&created.page), changed: None }
    }

    /// The header field that tells shared caches about the page that the call has changed.
    pub(super) fn invalidation(&self) -> Option<[(HeaderName, HeaderValue); 1]> {
        self.changed.as_deref().map(cache_groups::invalidation)
    }
}

/// The warning about `page`, which was just written.
fn note_on(page: &Page) -> Option<Bytes> {
    let block = || to_json(&json!({"type": "text", "text": PUBLISHED_KEY_WARNING})).into();
    page.seems_to_hold_a_key().then(block)
}

impl From<ToolRepresentation> for ToolResult {
    fn from(done: ToolRepresentation) -> Self {
        Self { link: Some(done.link.clone()), json: ToolJson::Finished(done), note: None, changed: None }
    }
}

pub(super) struct Shape<'a> {
    /// The JSON of the result's `_meta`, for clients without a handshake.
    pub(super) result_meta: Option<&'a str>,
    /// Whether the client knows links to resources.
    pub(super) has_resource_links: bool,
}

pub(super) fn response_body(id: &RequestId, result: Result<ToolResult, ApiError>, shape: &Shape<'_>) -> StreamedJson {
    let mut body = StreamedJson::default();
    let result_type = shape.result_meta.map_or("", |_| r#""resultType":"complete","#);
    let id = to_json(id);
    body.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{result_type}"content":[{{"type":"text","text":"#));
    let is_error = result.is_err();
    match result {
        Ok(ToolResult { json, link, note, .. }) => {
            let more = [link.filter(|_| shape.has_resource_links), note];
            match json {
                ToolJson::Page(page) => {
                    body.push("\"");
                    body.push_page(&page, Nesting::JsonInString);
                    body.push("\"");
                    push_between(&mut body, more);
                    body.push_page(&page, Nesting::Json);
                }
                ToolJson::Finished(page) => {
                    body.push("\"");
                    body.push(page.text);
                    body.push("\"");
                    push_between(&mut body, more);
                    body.push(page.json);
                }
                ToolJson::Written(json) => {
                    body.push(to_json(&json));
                    push_between(&mut body, more);
                    body.push(json);
                }
            }
        }
        // A failed call has no structured content, because clients check such content against the output schema even in
        // an error.
        Err(error) => {
            body.push(to_json(&tool_error(&error)));
            body.push("}]");
        }
    }
    let meta = shape.result_meta.map_or_else(String::new, |meta| format!(r#","_meta":{meta}"#));
    body.push(format!(r#","isError":{is_error}{meta}}}}}"#));
    body
}

/// Appends the JSON between the text and the structured content: `more` content blocks.
fn push_between(body: &mut StreamedJson, more: [Option<Bytes>; 2]) {
    body.push("}");
    for block in more.into_iter().flatten() {
        body.push(",");
        body.push(block);
    }
    body.push(r#"],"structuredContent":"#);
}

fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("strings and numbers serialise")
}
