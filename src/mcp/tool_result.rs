//! The result of a tool: JSON as text, for every client, and again as structured content unless the call failed.
//!
//! The result is written around that JSON and not serialised as a whole, because a page is written while it is sent (see
//! [`StreamedJson`]).

use rmcp::model::RequestId;
use serde::Serialize;

use super::error::tool_error;
use crate::api::error::ApiError;
use crate::api::types::{Nesting, PageJson, StreamedJson};

/// The JSON of a call that succeeded.
pub(super) enum ToolResult {
    /// A page, not yet written.
    Page(PageJson),
    /// Anything else.
    Json(String),
}

impl ToolResult {
    /// `body` as JSON.
    pub(super) fn json(body: &impl Serialize) -> Self {
        Self::Json(to_json(body))
    }
}

/// The JSON-RPC response to the request `id`. Only a client without a handshake gets `result_meta`, which is the JSON of
/// the result's `_meta`.
pub(super) fn response_body(
    id: &RequestId,
    result: Result<ToolResult, ApiError>,
    result_meta: Option<&str>,
) -> StreamedJson {
    let mut body = StreamedJson::default();
    let result_type = result_meta.map_or("", |_| r#""resultType":"complete","#);
    let id = to_json(id);
    body.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{result_type}"content":[{{"type":"text","text":"#));
    let is_error = result.is_err();
    match result {
        Ok(ToolResult::Page(page)) => {
            body.push("\"");
            body.push_page(&page, Nesting::JsonInString);
            body.push(r#""}],"structuredContent":"#);
            body.push_page(&page, Nesting::Json);
        }
        Ok(ToolResult::Json(json)) => {
            body.push(to_json(&json));
            body.push(r#"}],"structuredContent":"#);
            body.push(json);
        }
        // A failed call has no structured content, because clients check such content against the output schema even in
        // an error.
        Err(error) => {
            body.push(to_json(&tool_error(&error)));
            body.push("}]");
        }
    }
    let meta = result_meta.map_or_else(String::new, |meta| format!(r#","_meta":{meta}"#));
    body.push(format!(r#","isError":{is_error}{meta}}}}}"#));
    body
}

fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("strings and numbers serialise")
}
