//! Answers one message: reads it, checks it, and dispatches the five methods that this server has.
//!
//! The types of messages and results are those of `rmcp`; its HTTP service is not used (docs/internals/decisions/0008).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::Either;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, DiscoverResult, Icon, Implementation, InitializeRequestParams, JsonObject, JsonRpcResponse,
    JsonRpcVersion2_0, ListToolsResult, MetaObject, RequestId, RequestMetaObject, ServerCapabilities, ServerConfig,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::error::ProtocolRefusal;
use super::message::Message;
use super::revision::{self, Revision};
use super::tool_calls::Mcp;
use super::tool_result::{Shape, ToolResult, response_body};
use super::tools::{INSTRUCTIONS, ToolName};
use crate::api::answer::{Answer, later, now};
use crate::api::error::{ApiError, Interface};
use crate::api::metadata;
use crate::api::request::accept::weight;
use crate::api::request::credential::query_holds_key;
use crate::telemetry::labels::ToolLabels;
use crate::telemetry::spans::{self, CallerTrace, RequestSpan, Span};
use handbill_core::domain::origin::Origin;
use handbill_core::service::{BodyReadError, ServiceError};

/// How long a client may keep what `server/discover` says, in milliseconds. Only a new release changes that result.
const DISCOVER_TTL_MS: u64 = 60 * 60 * 1000;

/// How long a client may keep the list of tools, in milliseconds. A restart with other limits changes the list.
const TOOLS_TTL_MS: u64 = 5 * 60 * 1000;

/// The member of a result's `_meta` that names the server.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The members of a message's `_meta` that are read.
const READ_OF_META: [&str; 4] = {
    let [version, capabilities] = RequestMetaObject::DRAFT_REQUIRED_KEYS;
    [version, capabilities, "traceparent", "tracestate"]
};

/// Everything that answers need. Results that never change are serialised once, at the start.
pub(super) struct Server {
    mcp: Arc<Mcp>,
    config: ServerConfig,
    /// The result of `server/discover`.
    discovery: Box<RawValue>,
    tools: Box<RawValue>,
    handshake_tools: Box<RawValue>,
    /// The `_meta` of every other result in revisions without a handshake. Earlier revisions name the server in
    /// `initialize`.
    result_meta: Box<RawValue>,
}

/// The next step after the checks of a message.
enum Step {
    Done(Response),
    Call(Call),
}

/// A call of a tool, whose parameters are not parsed yet.
struct Call {
    id: RequestId,
    revision: Revision,
    params: JsonObject,
    meta: RequestMetaObject,
}

impl Server {
    pub(super) fn new(mcp: Mcp) -> Self {
        let identity = Implementation::new(metadata::server_name(&mcp.base_url), metadata::SERVER_VERSION)
            .with_title(metadata::TITLE)
            .with_description(metadata::SUMMARY)
            .with_website_url(mcp.base_url.as_str())
            .with_icons(icons(&mcp.base_url));
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
            mcp: Arc::new(mcp),
            config,
            discovery: raw(&discovery),
            tools: raw(&tools),
            handshake_tools: raw(&handshake_tools),
            result_meta: raw(&server_info),
        }
    }

    pub(super) fn answer(self: &Arc<Self>, head: &Parts, body: Result<Vec<u8>, BodyReadError>) -> Answer {
        let parsed = match body {
            Ok(bytes) => Message::parse(&bytes, &READ_OF_META),
            Err(error) => Err(ApiError::of(&ServiceError::Body(error.into()), Interface::Mcp).into()),
        };
        parsed
            .and_then(|message| {
                let id = message.id.clone();
                self.check(head, message)
                    .and_then(|step| match step {
                        Step::Done(response) => Ok(now(response)),
                        Step::Call(call) => self.call_tool(head, call),
                    })
                    .map_err(|refusal| refusal.to(id))
            })
            .unwrap_or_else(|refusal| now(refusal.into_response()))
    }

    /// Checks a message and its head, and answers it unless it calls a tool.
    fn check(&self, head: &Parts, mut message: Message) -> Result<Step, ProtocolRefusal> {
        if head.uri.query().is_some_and(query_holds_key) {
            return Err(ApiError::key_in_address().into());
        }
        let opening = take_opening(&mut message);
        if opening.is_none() {
            revision::check_version_header(&head.headers, &message)?;
        }
        if !accepts_json(&head.headers) {
            let advice = "Answers are JSON. Send `Accept: application/json, text/event-stream`.";
            return Err(ProtocolRefusal::new(StatusCode::NOT_ACCEPTABLE, ErrorData::invalid_request(advice, None)));
        }
        let Some(method) = message.method.take() else {
            let advice = "This server sends no requests, so it accepts no answers. Send a request or a notification.";
            return Err(ProtocolRefusal::invalid_request(advice));
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
            "initialize" if !revision.is_modern => Err(ProtocolRefusal::invalid_params(
                "Send `params` with `protocolVersion`, `capabilities` and `clientInfo`, which has `name` and `version`.",
            )),
            "ping" if !revision.is_modern => Ok(Step::Done(respond(&id, &JsonObject::new()))),
            "server/discover" => Ok(Step::Done(respond(&id, &self.discovery))),
            "tools/call" => Ok(Step::Call(Call { id, revision, params: message.params, meta: message.meta })),
            "tools/list" => self.list_tools(&id, revision, &message.params).map(Step::Done),
            _ => Err(ProtocolRefusal::unknown_method(revision.is_modern)),
        }
    }

    fn list_tools(&self, id: &RequestId, revision: Revision, params: &JsonObject) -> Result<Response, ProtocolRefusal> {
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return Err(ProtocolRefusal::invalid_params(
                "The list of tools is one page, without a cursor. Leave out `cursor`.",
            ));
        }
        Ok(respond(id, if revision.is_modern { &self.tools } else { &self.handshake_tools }))
    }

    fn call_tool(self: &Arc<Self>, head: &Parts, call: Call) -> Result<Answer, ProtocolRefusal> {
        let Call { id, revision, params, meta } = call;
        let (name, arguments) = call_parameters(params)?;
        let Some(tool) = ToolName::parse(&name) else {
            self.count("_OTHER", "unknown_tool");
            let names = ToolName::ALL.map(ToolName::as_str).join(", ");
            return Err(ProtocolRefusal::invalid_params(format!(
                "There is no tool with this name. The tools are {names}."
            )));
        };
        let caller = CallerTrace { traceparent: meta.get_traceparent(), tracestate: meta.get_tracestate() };
        let span = spans::tool(head.extensions.get::<RequestSpan>(), caller, tool.as_str());
        let client = self.mcp.proxies.client(head);
        // A call may wait for long, and many do at once. Until then nothing is kept of the message but the arguments.
        drop((name, meta));
        let (server, arguments) = (Arc::clone(self), arguments);
        let calling = match catch_unwind(AssertUnwindSafe(|| self.mcp.call(tool, client, arguments))) {
            Ok(Either::Left(result)) => {
                return Ok(now(self.called(&id, revision, tool, span, result.into_inner())));
            }
            Ok(Either::Right(calling)) => calling,
            Err(_panic) => std::future::ready(Err(panicked())).boxed(),
        };
        Ok(later(async move {
            let result = AssertUnwindSafe(span.run(calling)).catch_unwind().await;
            server.called(&id, revision, tool, span, result.unwrap_or_else(|_panic| Err(panicked())))
        }))
    }

    /// Records the result of a call, and answers with it in the shape of the call's revision.
    fn called(
        &self,
        id: &RequestId,
        revision: Revision,
        tool: ToolName,
        span: Span,
        result: Result<ToolResult, ApiError>,
    ) -> Response {
        let (outcome, status) =
            result.as_ref().map_or_else(|error| (error.code.as_str(), error.code.status()), |_| ("ok", 200));
        self.count(tool.as_str(), outcome);
        span.done(outcome, status >= 500);
        let shape = Shape {
            result_meta: revision.is_modern.then(|| self.result_meta.get()),
            has_resource_links: revision.has_resource_links,
        };
        let invalidation = result.as_ref().ok().and_then(ToolResult::invalidation);
        let body = Body::new(response_body(id, result, &shape));
        (
            [(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            invalidation.into_iter().flatten().collect::<HeaderMap>(),
            body,
        )
            .into_response()
    }

    fn count(&self, tool: &'static str, outcome: &'static str) {
        self.mcp.metrics.tool_calls.get_or_create(&ToolLabels { tool, outcome }).inc();
    }
}

/// The error of a call whose tool panicked: the call failed, not the request, and it is counted.
fn panicked() -> ApiError {
    tracing::error!("a tool panicked");
    ApiError::internal()
}

/// The name and the arguments of a call.
fn call_parameters(mut params: JsonObject) -> Result<(String, JsonObject), ProtocolRefusal> {
    match (params.remove("name"), params.remove("arguments")) {
        (Some(Value::String(name)), Some(Value::Object(arguments))) => Ok((name, arguments)),
        (Some(Value::String(name)), None | Some(Value::Null)) => Ok((name, JsonObject::new())),
        _ => Err(ProtocolRefusal::invalid_params(
            "Send the tool's name as the string `params.name` and its arguments as the object `params.arguments`.",
        )),
    }
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

/// The icons that clients show beside the server's name.
fn icons(base_url: &Origin) -> Vec<Icon> {
    let icon = |(path, media_type, size): (&str, &str, &str)| {
        Icon::new(format!("{base_url}{path}")).with_mime_type(media_type).with_sizes(vec![size.to_owned()])
    };
    metadata::ICONS.map(icon).into()
}

fn raw(result: &impl Serialize) -> Box<RawValue> {
    to_raw_value(result).expect("strings and numbers serialise")
}
