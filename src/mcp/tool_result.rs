//! The result of a tool: JSON as text, for every client, and again as structured content unless the call failed.
//!
//! The result is written around that JSON and not serialised as a whole, because a page is written while it is sent (see
//! [`StreamedJson`]).

use std::sync::Arc;

use bytes::Bytes;
use rmcp::model::RequestId;
use serde::Serialize;

use super::error::tool_error;
use super::finished::{FinishedPage, link_to};
use crate::api::error::ApiError;
use crate::api::types::{CreatedBody, Included, Nesting, PageJson, StreamedJson, ToolPage};
use crate::domain::origin::Origin;
use crate::domain::page::Page;
use crate::service::{Created, PageRead};

/// The result of a call that succeeded.
pub(super) struct ToolResult {
    json: ToolJson,
    /// The content block that links to the page, as JSON.
    link: Option<Bytes>,
}

/// The structured content of a result.
enum ToolJson {
    /// A page, not yet written.
    Page(PageJson),
    /// A page, written for an earlier call.
    Finished(FinishedPage),
    /// Anything else.
    Written(String),
}

impl ToolResult {
    /// `body` as JSON.
    pub(super) fn json(body: &impl Serialize) -> Self {
        Self { json: ToolJson::Written(to_json(body)), link: None }
    }

    /// `page`, which was read, with the texts that `included` names, and a link to it.
    pub(super) fn read(page: &PageRead, base_url: &Origin, included: Included) -> Self {
        match FinishedPage::of(page, base_url, included) {
            Some(finished) => Self { link: Some(finished.link.clone()), json: ToolJson::Finished(finished) },
            None => Self::page(page.share(), base_url, included),
        }
    }

    /// `page` with the texts that `included` names, and a link to it.
    pub(super) fn page(page: Arc<Page>, base_url: &Origin, included: Included) -> Self {
        let link = Some(link_to(&page, base_url));
        Self { json: ToolJson::Page(ToolPage::json(page, base_url, included)), link }
    }

    /// The result of a create, with a link to the page.
    pub(super) fn created(created: &Created, base_url: &Origin) -> Self {
        let json = to_json(&CreatedBody::new(created, base_url));
        Self { json: ToolJson::Written(json), link: Some(link_to(&created.page, base_url)) }
    }
}

/// The shape that a client's revision gives to a result.
pub(super) struct Shape<'a> {
    /// The JSON of the result's `_meta`, for clients without a handshake.
    pub(super) result_meta: Option<&'a str>,
    /// Whether the client knows links to resources.
    pub(super) has_resource_links: bool,
}

/// The JSON-RPC response to the request `id`.
pub(super) fn response_body(id: &RequestId, result: Result<ToolResult, ApiError>, shape: &Shape<'_>) -> StreamedJson {
    let mut body = StreamedJson::default();
    let result_type = shape.result_meta.map_or("", |_| r#""resultType":"complete","#);
    let id = to_json(id);
    body.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{result_type}"content":[{{"type":"text","text":"#));
    let is_error = result.is_err();
    match result {
        Ok(ToolResult { json, link }) => {
            let link = link.filter(|_| shape.has_resource_links);
            match json {
                ToolJson::Page(page) => {
                    body.push("\"");
                    body.push_page(&page, Nesting::JsonInString);
                    body.push("\"");
                    push_between(&mut body, link);
                    body.push_page(&page, Nesting::Json);
                }
                ToolJson::Finished(page) => {
                    body.push("\"");
                    body.push(page.text);
                    body.push("\"");
                    push_between(&mut body, link);
                    body.push(page.json);
                }
                ToolJson::Written(json) => {
                    body.push(to_json(&json));
                    push_between(&mut body, link);
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

/// Appends the JSON between the text and the structured content.
fn push_between(body: &mut StreamedJson, link: Option<Bytes>) {
    body.push("}");
    if let Some(link) = link {
        body.push(",");
        body.push(link);
    }
    body.push(r#"],"structuredContent":"#);
}

fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("strings and numbers serialise")
}
