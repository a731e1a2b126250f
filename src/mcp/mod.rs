//! The same operations for agents: Model Context Protocol over Streamable HTTP (spec §4.6; contract, decision 15).
//!
//! It serves clients of the 2026-07-28 revision, which describe themselves in every request, and clients of earlier
//! revisions, which begin with `initialize`. It keeps no session, so any replica can answer any request. Every answer is
//! one JSON object; there is no event stream.

mod arguments;
mod error;
mod handler;
mod host_check;
mod message;
mod representation;
mod revision;
mod tool_calls;
mod tool_result;
mod tools;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, VARY};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

pub(crate) use self::error::error_body;
use self::error::{ProtocolRefusal, method_not_allowed};
use self::handler::Server;
pub use self::host_check::HostCheck;
use self::host_check::HostCheckError;
pub use self::tool_calls::Mcp;
use crate::api::answer::{Answer, begun, later, now, then};
use crate::api::preflight;
use crate::api::request::body::{RequestBody, declared_as_json};

/// The header fields of answers that pages of the allowed origins may read.
pub const EXPOSED: HeaderValue = HeaderValue::from_static("allow,retry-after,x-request-id");

#[derive(Clone)]
pub struct Tools {
    server: Arc<Server>,
    allowed: Arc<HostCheck>,
}

impl Tools {
    pub fn new(mcp: Mcp, allowed: HostCheck) -> Self {
        Self { server: Arc::new(Server::new(mcp)), allowed: Arc::new(allowed) }
    }

    /// The answer to a request for the tools. A request for another host or from another origin is refused first.
    pub fn answer(&self, head: Parts, body: Body) -> Answer {
        if let Err(error) = self.allowed.verify(&head.uri, &head.headers) {
            let mut refusal = ProtocolRefusal::from(error).into_response();
            refusal.extensions_mut().insert(error);
            return now(refusal);
        }
        match head.method {
            Method::POST => {}
            Method::OPTIONS => return later(self.clone().preflight(Request::from_parts(head, body))),
            _ => return now(([(ALLOW, "POST")], method_not_allowed()).into_response()),
        }
        let reading = async move {
            let body = RequestBody::of(&head.headers, body).await.bytes(declared_as_json(&head.headers)).await;
            (head, body)
        };
        let server = Arc::clone(&self.server);
        then(begun(reading), move |(head, body)| server.answer(&head, body))
    }

    /// Sets the header fields that every answer has, since any of them may show an edit key. Returns `origin` if its pages
    /// may read this answer.
    pub fn complete(&self, origin: Option<HeaderValue>, answer: &mut Response) -> Option<HeaderValue> {
        let is_refused = answer.extensions().get::<HostCheckError>().is_some();
        let headers = answer.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.entry(VARY).or_insert(HeaderValue::from_static("origin"));
        origin.filter(|origin| !is_refused && self.allowed.admits_origin(origin))
    }

    /// Lets pages of the allowed origins call the tools, with the headers of the protocol and without credentials.
    async fn preflight(self, request: Request) -> Response {
        let allowed = self.allowed;
        let named = ["last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"];
        let headers = [ACCEPT, AUTHORIZATION, CONTENT_TYPE].into_iter().chain(named.map(HeaderName::from_static));
        let rules = CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(move |origin, _| allowed.admits_origin(origin)))
            .allow_methods([Method::POST])
            .allow_headers(headers.collect::<Vec<_>>());
        preflight::answer(rules, request).await
    }
}
