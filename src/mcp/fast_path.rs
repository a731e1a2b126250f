//! Calls of `get_page` that are answered before the router and its layers, which cost more than the answer.
//!
//! A call takes this path only if each layer of `super::router` would pass it on unchanged, and if its page is ready.
//! Anything else, whatever the reason, is left to the router, which alone decides what is refused and how. So this module
//! has no rule of its own: it asks what the layers and the handler ask, and adds what the layers would add.
//! `tests/it/mcp/fast_path.rs` sends the same calls both ways and compares the answers.

use std::sync::Arc;

use axum::response::Response;
use http::HeaderMap;
use http::header::ORIGIN;
use http::request::Parts;
use http_body::Body as _;

use super::handler::{Call, Server, Step, call_parameters};
use super::host_check::HostCheck;
use super::message::Parsed;
use super::tools::ToolName;
use crate::api::request::body::declared_as_json;

/// This path, with all that it needs.
pub struct FastPath {
    pub(super) server: Arc<Server>,
    pub(super) allowed: Arc<HostCheck>,
    /// The header fields that the layers set on an answer to a request without `Origin`.
    pub(super) fields: HeaderMap,
}

impl FastPath {
    /// The answer to a call with this head and body, if its page is ready. `has_room` says whether there is memory for a
    /// response of so many bytes. A message whose page is not ready is left for the handler in the head's extensions.
    pub fn answer(&self, head: &mut Parts, body: &[u8], has_room: fn(&Parts, u64) -> bool) -> Option<Response> {
        let is_plain = !head.headers.contains_key(ORIGIN)
            && names_tool(body)
            && declared_as_json(&head.headers).is_ok()
            && self.allowed.verify(&head.uri, &head.headers).is_ok();
        if !is_plain {
            return None;
        }
        let message = self.server.parse(body).ok()?;
        let Some(page) = self.server.mcp.ready_page(&message.params) else {
            Parsed::put(&mut head.extensions, message);
            return None;
        };
        let Step::Call(Call { id, revision, params, .. }) = self.server.check(head, message).ok()? else { return None };
        let parameters = call_parameters(params).ok()?;
        if ToolName::parse(&parameters.name) != Some(ToolName::Get) {
            return None;
        }
        // Nothing is made if there is no memory for any answer.
        if !has_room(head, 0) {
            return None;
        }
        let result = self.server.mcp.get_ready(&page, parameters.arguments.unwrap_or_default())?;
        let body = self.server.body(&id, revision, Ok(result));
        if !has_room(head, body.size_hint().lower()) {
            return None;
        }
        page.count_hit();
        self.server.count(ToolName::Get.as_str(), "ok");
        let mut response = Server::response(body);
        response.headers_mut().extend(self.fields.clone());
        Some(response)
    }
}

/// Whether `body` may call the tool. Anything else should be parsed only once, by the handler.
fn names_tool(body: &[u8]) -> bool {
    let name = ToolName::Get.as_str().as_bytes();
    body.windows(name.len()).any(|window| window == name)
}
