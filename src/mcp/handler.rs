//! Answers one message: reads it, checks it, and dispatches the five methods that this server has.
//!
//! The types of messages and results are those of `rmcp`; its HTTP service is not used (docs/decisions/0012).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, CallToolRequestParams, DiscoverResult, Icon, Implementation, InitializeRequestParams, JsonObject,
    JsonRpcResponse, JsonRpcVersion2_0, ListToolsResult, MetaObject, RequestId, RequestMetaObject, ServerCapabilities,
    ServerConfig,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::error::Refusal;
use super::message::{Message, Parsed};
use super::revision::{self, Revision};
use super::tool_calls::Mcp;
use super::tool_result::{Shape, ToolResult, response_body};
use super::tools::{INSTRUCTIONS, ToolName};
use crate::api::error::{ApiError, Interface};
use crate::api::metadata;
use crate::api::request::accept::weight;
use crate::api::request::body::{RequestBody, declared_as_json};
use crate::api::request::credential::query_holds_key;
use crate::api::types::StreamedJson;
use crate::domain::origin::Origin;
use crate::domain::subject::Requester;
use crate::service::ServiceError;
use crate::telemetry::labels::ToolLabels;
use crate::telemetry::spans::{self, CallerTrace, RequestSpan};

/// How long a client may keep what `server/discover` says, in milliseconds. Only a new release changes that result.
const DISCOVER_TTL_MS: u64 = 60 * 60 * 1000;

/// How long a client may keep the list of tools, in milliseconds. A restart with other limits changes the list.
const TOOLS_TTL_MS: u64 = 5 * 60 * 1000;

/// The member of a result's `_meta` that names the server.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The members of a message's `_meta` that are read, besides that of the subject.
const READ_OF_META: [&str; 4] = {
    let [version, capabilities] = RequestMetaObject::DRAFT_REQUIRED_KEYS;
    [version, capabilities, "traceparent", "tracestate"]
};

/// Everything that answers need. Results that never change are serialised once, at the start.
pub(super) struct Server {
    pub(super) mcp: Mcp,
    config: ServerConfig,
    /// The result of `server/discover`.
    discovery: Box<RawValue>,
    /// The results of `tools/list`.
    tools: Box<RawValue>,
    handshake_tools: Box<RawValue>,
    /// The `_meta` of every other result in revisions without a handshake. Earlier revisions name the server in
    /// `initialize`.
    result_meta: Box<RawValue>,
}

/// The next step after the checks of a message.
pub(super) enum Step {
    /// The message is answered.
    Done(Response),
    /// It calls a tool.
    Call(Call),
}

/// A call of a tool, whose parameters are not parsed yet.
pub(super) struct Call {
    pub(super) id: RequestId,
    pub(super) revision: Revision,
    pub(super) params: JsonObject,
    meta: RequestMetaObject,
}

impl Server {
    pub(super) fn new(mcp: Mcp) -> Self {
        let identity = Implementation::new(metadata::REGISTRY_NAME, metadata::INTERFACE_VERSION)
            .with_title(metadata::TITLE)
            .with_description(metadata::SUMMARY)
            .with_website_url(mcp.base_url.as_str())
            .with_icons(vec![icon(&mcp.base_url)]);
        let mut server_info = MetaObject::default();
        server_info.insert(SERVER_INFO.to_owned(), serde_json::to_value(&identity).expect("strings serialise"));
        let config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(identity)
            .with_instructions(INSTRUCTIONS);
        let discovery = DiscoverResult::from_server_info(revision::supported(), config.clone())
            .with_ttl_ms(DISCOVER_TTL_MS)
            .with_cache_scope(CacheScope::Public);
        let quotas = mcp.service.quotas();
        let mut handshake_tools =
            ListToolsResult::with_all_items(ToolName::ALL.map(|tool| tool.description(&quotas)).to_vec());
        let mut tools = handshake_tools.clone().with_ttl_ms(TOOLS_TTL_MS).with_cache_scope(CacheScope::Public);
        tools.meta = Some(server_info.clone());
        handshake_tools.result_type = None;
        Self {
            mcp,
            config,
            discovery: raw(&discovery),
            tools: raw(&tools),
            handshake_tools: raw(&handshake_tools),
            result_meta: raw(&server_info),
        }
    }

    /// Parses the body of a request.
    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Message, Refusal> {
        let subject = self.mcp.subjects.meta.as_deref();
        Message::parse(bytes, &|member| READ_OF_META.contains(&member) || subject == Some(member))
    }

    async fn answer(&self, head: &Parts, message: Message) -> Result<Response, Refusal> {
        match self.check(head, message)? {
            Step::Done(response) => Ok(response),
            Step::Call(call) => self.call_tool(head, call).await,
        }
    }

    /// Checks a message and its head, and answers it unless it calls a tool.
    pub(super) fn check(&self, head: &Parts, mut message: Message) -> Result<Step, Refusal> {
        if head.uri.query().is_some_and(query_holds_key) {
            return Err(ApiError::key_in_address().into());
        }
        let opening = take_opening(&mut message);
        if opening.is_none() {
            revision::check_version_header(&head.headers, &message)?;
        }
        if !accepts_json(&head.headers) {
            let advice = "Answers are JSON. Send `Accept: application/json, text/event-stream`.";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, ErrorData::invalid_request(advice, None)));
        }
        let Some(method) = message.method.take() else {
            let advice = "This server sends no requests, so it accepts no answers. Send a request or a notification.";
            return Err(Refusal::invalid_request(advice));
        };
        if let Some((id, params)) = opening {
            let mut result = self.config.clone();
            result.protocol_version = revision::agree_in_handshake(&head.headers, &params)?;
            return Ok(Step::Done(respond(&id, &result)));
        }
        let revision = revision::agree(&head.headers, &method, &message)?;
        // A notification says nothing that this server needs to know.
        let Some(id) = message.id.take() else {
            return Ok(Step::Done(StatusCode::ACCEPTED.into_response()));
        };
        match method.as_str() {
            "initialize" if !revision.is_modern => Err(Refusal::invalid_params(
                "Send `params` with `protocolVersion`, `capabilities` and `clientInfo`, which has `name` and `version`.",
            )),
            "ping" if !revision.is_modern => Ok(Step::Done(respond(&id, &JsonObject::new()))),
            "server/discover" => Ok(Step::Done(respond(&id, &self.discovery))),
            "tools/call" => Ok(Step::Call(Call { id, revision, params: message.params, meta: message.meta })),
            "tools/list" => self.list_tools(&id, revision, &message.params).map(Step::Done),
            _ => Err(Refusal::unknown_method(revision.is_in_meta)),
        }
    }

    fn list_tools(&self, id: &RequestId, revision: Revision, params: &JsonObject) -> Result<Response, Refusal> {
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return Err(Refusal::invalid_params(
                "The list of tools is one page, without a cursor. Leave out `cursor`.",
            ));
        }
        Ok(respond(id, if revision.is_modern { &self.tools } else { &self.handshake_tools }))
    }

    async fn call_tool(&self, head: &Parts, call: Call) -> Result<Response, Refusal> {
        let Call { id, revision, params, meta } = call;
        let CallToolRequestParams { name, arguments, .. } = call_parameters(params)?;
        let Some(tool) = ToolName::parse(&name) else {
            self.count("_OTHER", "unknown_tool");
            let names = ToolName::ALL.map(ToolName::as_str).join(", ");
            return Err(Refusal::invalid_params(format!("There is no tool with this name. The tools are {names}.")));
        };
        let caller = CallerTrace { traceparent: meta.get_traceparent(), tracestate: meta.get_tracestate() };
        let span = spans::tool(head.extensions.get::<RequestSpan>(), caller, tool.as_str());
        let Mcp { subjects, proxies, .. } = &self.mcp;
        let subject = subjects.in_meta(&meta.0.0).or_else(|| subjects.in_headers(&head.headers));
        let requester = Requester { client: proxies.client(head), subject };
        // A call may wait for long, and many do at once. Until then nothing is kept of the message but the arguments.
        drop((name, meta));
        // The future of a call is on the heap, because it is large and many layers of futures surround it.
        let calling = Box::pin(self.mcp.call(tool, requester, arguments.unwrap_or_default()));
        // A panic in a tool is a failed call, not a failed request, and it is counted.
        let result = AssertUnwindSafe(span.run(calling)).catch_unwind().await.unwrap_or_else(|_panic| {
            tracing::error!("a tool panicked");
            Err(ApiError::internal())
        });
        let (outcome, status) =
            result.as_ref().map_or_else(|error| (error.code.as_str(), error.code.status()), |_| ("ok", 200));
        self.count(tool.as_str(), outcome);
        span.done(outcome, status >= 500);
        Ok(Self::response(self.body(&id, revision, result)))
    }

    /// The response to the request `id`, in the shape of its revision.
    pub(super) fn body(
        &self,
        id: &RequestId,
        revision: Revision,
        result: Result<ToolResult, ApiError>,
    ) -> StreamedJson {
        let shape = Shape {
            result_meta: revision.is_modern.then(|| self.result_meta.get()),
            has_resource_links: revision.has_resource_links,
        };
        response_body(id, result, &shape)
    }

    /// `body` as an HTTP response.
    pub(super) fn response(body: StreamedJson) -> Response {
        ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], Body::new(body)).into_response()
    }

    pub(super) fn count(&self, tool: &'static str, outcome: &'static str) {
        self.mcp.metrics.tool_calls.get_or_create(&ToolLabels { tool, outcome }).inc();
    }
}

/// The parameters of a call of a tool.
pub(super) fn call_parameters(params: JsonObject) -> Result<CallToolRequestParams, Refusal> {
    let message =
        "Send the tool's name as the string `params.name` and its arguments as the object `params.arguments`.";
    serde_json::from_value(Value::Object(params)).map_err(|_| Refusal::invalid_params(message))
}

/// Answers the message in `request`.
pub(super) async fn handle(State(server): State<Arc<Server>>, request: Request) -> Result<Response, Refusal> {
    let (mut head, body) = request.into_parts();
    let message = if let Some(message) = Parsed::take(&mut head.extensions) {
        message
    } else {
        let read = RequestBody::of(&head.headers, body).await.bytes(declared_as_json(&head.headers)).await;
        let bytes = read.map_err(|error| ApiError::of(&ServiceError::Body(error.into()), Interface::Mcp))?;
        server.parse(&bytes)?
    };
    let id = message.id.clone();
    server.answer(&head, message).await.map_err(|refusal| refusal.to(id))
}

/// The `id` and parameters of an `initialize` that can be answered. Any other `initialize` is checked like every
/// request, and then refused.
fn take_opening(message: &mut Message) -> Option<(RequestId, InitializeRequestParams)> {
    if message.method.as_deref() != Some("initialize") {
        return None;
    }
    let id = message.id.clone()?;
    let params = serde_json::from_value(Value::Object(std::mem::take(&mut message.params))).ok()?;
    Some((id, params))
}

/// Whether the client accepts JSON: it says so, accepts anything, or says nothing. The most precise range counts.
///
/// The protocol asks clients to accept `text/event-stream` too. This server never sends one, so it does not require
/// that.
fn accepts_json(headers: &HeaderMap) -> bool {
    let mut ranges = ["application/json", "application/*", "*/*"].iter().filter_map(|range| weight(headers, range));
    !headers.contains_key(ACCEPT) || ranges.next().is_some_and(|weight| weight > 0.0)
}

fn respond(id: &RequestId, result: &impl Serialize) -> Response {
    Json(JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id: id.clone(), result }).into_response()
}

/// The icon that clients show beside the server's name.
fn icon(base_url: &Origin) -> Icon {
    let src = format!("{base_url}{}", metadata::path::ICON);
    Icon::new(src).with_mime_type("image/svg+xml").with_sizes(vec!["any".to_owned()])
}

fn raw(result: &impl Serialize) -> Box<RawValue> {
    to_raw_value(result).expect("strings and numbers serialise")
}
