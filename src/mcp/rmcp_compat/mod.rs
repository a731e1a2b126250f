//! Mends what `rmcp` 3.9.0 answers otherwise than the protocol, or its users, ask for. Each mend names its defect, so
//! that it can go when `rmcp` is fixed; `tests/it/mcp/` has a test for each.
//!
//! Two further mends stand in `server`, where `rmcp` lets a handler decide.

mod duplicate_keys;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, JsonRpcError, ProtocolVersion, RequestId};
use serde_json::{Value, json};

use super::error::refusal;
use super::messages;
use super::page_result::PageSlot;
use crate::api::error::{ApiError, Interface};
use crate::api::metadata::MCP_PROTOCOL_VERSIONS;
use crate::api::request::MAX_BODY_BYTES;
use crate::api::request::accept::weight;
use crate::api::request::body::{RequestBody, declared_as_json, why_not_json};
use crate::api::request::credential::query_holds_key;
use crate::domain::edit_key::PREFIX;
use crate::mcp::rmcp_compat::duplicate_keys::Read;
use crate::service::{BodyReadError, ServiceError};

const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// What `rmcp` demands that every client accepts, though it is only ever sent the first.
const BOTH_TYPES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The member of `_meta` that tells a request of the 2026-07-28 revision.
const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

/// Longest refusal of `rmcp` that is read, in bytes: it may hold all of a message, each byte of it escaped.
const READ_BYTES: usize = 8 * MAX_BODY_BYTES;

/// Longest refusal of `rmcp` that is handed on, in bytes. What is longer repeats the request.
const REPEATED_BYTES: usize = 2 * 1024;

/// What of a message the mends depend on.
struct Envelope {
    id: Option<RequestId>,
    is_initialize: bool,
    has_version_in_meta: bool,
}

/// A message that is none, with the status that goes with it.
struct Malformed {
    id: Option<RequestId>,
    error: ErrorData,
}

/// Reads one message within bounds, hands it on, and sees to it that the answer is JSON.
pub(super) async fn correct(request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    // Defect: over its limit `rmcp` answers in plain text, and it waits for a slow body without end.
    let read = RequestBody::of(&parts.headers, body).await.bytes(declared_as_json(&parts.headers)).await;
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(fault) => return body_refused(fault),
    };
    let envelope = match Envelope::of(&bytes) {
        Ok(envelope) => envelope,
        Err(Malformed { id, error }) => return refusal(StatusCode::BAD_REQUEST, id, error),
    };
    if parts.uri.query().is_some_and(query_holds_key) {
        return error_refused(ApiError::key_in_address(), envelope.id);
    }
    if let Some(refused) = unsupported_version(&parts.headers, &envelope) {
        return refused;
    }
    // Defect: 406 unless the client accepts event streams, which it is never sent.
    if accepts_json(&parts.headers) {
        parts.headers.insert(ACCEPT, BOTH_TYPES);
    }
    // Other names for JSON were judged above, by the rule that REST has.
    parts.headers.insert(CONTENT_TYPE, JSON);
    let slot = PageSlot::default();
    parts.extensions.insert(slot.clone());
    let answer = next.run(Request::from_parts(parts, Body::from(bytes))).await;
    in_json(slot.fill(answer).await, envelope.id).await
}

impl Envelope {
    /// Defect: `rmcp` answers 415 in plain text to whatever is no message. JSON-RPC has codes for it, and revisions of
    /// the protocol agree on 400.
    fn of(bytes: &[u8]) -> Result<Self, Malformed> {
        let Read { value: message, is_unique } = serde_json::from_slice(bytes).map_err(|error| {
            let what = format!("{} Send one JSON-RPC message in UTF-8.", why_not_json(&error));
            Malformed { id: None, error: ErrorData::parse_error(what, None) }
        })?;
        let invalid = |id, what: &'static str| Malformed { id, error: ErrorData::invalid_request(what, None) };
        let Value::Object(message) = message else {
            let is_batch = message.is_array();
            let what = if is_batch {
                "Batches are not taken. Send each message in a request of its own."
            } else {
                "The body is no JSON-RPC message. Send one JSON object."
            };
            return Err(invalid(None, what));
        };
        let id = match message.get("id") {
            None => None,
            Some(Value::String(id)) => Some(RequestId::String(id.as_str().into())),
            Some(id) => match id.as_i64() {
                Some(number) => Some(RequestId::Number(number)),
                None => {
                    return Err(invalid(
                        None,
                        "The `id` is neither a string nor an integer of 64 bits. Send one that is.",
                    ));
                }
            },
        };
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(id, "The member `jsonrpc` is not \"2.0\". Send it as that."));
        }
        let is_answer = message.contains_key("result") || message.contains_key("error");
        let method = message.get("method").and_then(Value::as_str);
        if method.is_none() && (!is_answer || message.contains_key("method")) {
            return Err(invalid(id, "The member `method` is missing or no string. Send the name of a method."));
        }
        if message.get("params").is_some_and(|params| !params.is_object()) {
            let what = "The member `params` is no object. Send the parameters by name.";
            return Err(Malformed { id, error: ErrorData::invalid_params(what, None) });
        }
        // Defect: of members of the same name the last counts, so that a mistaken call does something else than it says.
        if !is_unique {
            return Err(invalid(id, "A member of the message is there twice. Send each once."));
        }
        let meta = message.get("params").and_then(|params| params.get("_meta"));
        Ok(Self {
            id,
            is_initialize: method == Some("initialize"),
            has_version_in_meta: meta.is_some_and(|meta| meta.get(VERSION_IN_META).is_some()),
        })
    }
}

/// Defect: `rmcp` refuses unknown revisions of the handshake era in plain text, and lets pass those that it knows and
/// we do not speak. What names its revision in `_meta` too, it judges rightly.
fn unsupported_version(headers: &HeaderMap, envelope: &Envelope) -> Option<Response> {
    let requested = headers.get(MCP_PROTOCOL_VERSION)?;
    let requested = String::from_utf8_lossy(requested.as_bytes());
    if envelope.is_initialize || envelope.has_version_in_meta || MCP_PROTOCOL_VERSIONS.contains(&requested.as_ref()) {
        return None;
    }
    Some(refusal(StatusCode::BAD_REQUEST, envelope.id.clone(), messages::unsupported_version(&requested)))
}

/// Whether the client takes JSON: it says so, takes anything, or says nothing. What is more precise counts.
fn accepts_json(headers: &HeaderMap) -> bool {
    let mut ranges = ["application/json", "application/*", "*/*"].iter().filter_map(|range| weight(headers, range));
    !headers.contains_key(ACCEPT) || ranges.next().is_some_and(|weight| weight > 0.0)
}

fn body_refused(fault: BodyReadError) -> Response {
    error_refused(ApiError::of(&ServiceError::Body(fault.into()), Interface::Mcp), None)
}

/// A refusal that has a code of ours.
fn error_refused(error: ApiError, id: Option<RequestId>) -> Response {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let data = json!({"error": error.code.as_str(), "status": error.code.status()});
    let mut answer = refusal(status, id, ErrorData::invalid_request(error.message, Some(data)));
    if let Some(seconds) = error.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// Defects: what `rmcp` refuses before it has read a message, it refuses in plain text; and where a header and the
/// body disagree it repeats both, whatever they hold.
async fn in_json(answer: Response, id: Option<RequestId>) -> Response {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return answer;
    }
    let (parts, body) = answer.into_parts();
    let bytes = to_bytes(body, READ_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let must_not_be_repeated = text.contains(PREFIX) || text.len() > REPEATED_BYTES;
    if parts.headers.get(CONTENT_TYPE) == Some(&JSON) {
        if let Ok(refused) = serde_json::from_slice::<JsonRpcError>(&bytes)
            && let Some(error) = messages::advised(&refused.error)
        {
            return refusal(status, id, error);
        }
        if !must_not_be_repeated {
            return Response::from_parts(parts, Body::from(bytes));
        }
    }
    match status {
        // The body was declared as JSON and is: what it holds is at fault, not its type.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let what = "The body is no message of the Model Context Protocol. Check its members against the revision that you speak.";
            refusal(StatusCode::BAD_REQUEST, id, ErrorData::invalid_request(what, None))
        }
        StatusCode::NOT_ACCEPTABLE => {
            let what = "Answers are JSON. Send `Accept: application/json, text/event-stream`.";
            refusal(status, id, ErrorData::invalid_request(what, None))
        }
        _ if status.is_server_error() => {
            tracing::error!(status = status.as_u16(), "the protocol's library failed");
            refusal(status, id, ErrorData::internal_error(ApiError::internal().message, None))
        }
        _ if must_not_be_repeated => {
            let code = serde_json::from_slice::<JsonRpcError>(&bytes).map(|refused| refused.error.code);
            let what = "A header or a member of the message is not what it must be. It is not repeated here, for it is long or may hold an edit key: send keys as the argument `edit_key` alone.";
            refusal(status, id, ErrorData::new(code.unwrap_or(ErrorCode::INVALID_REQUEST), what, None))
        }
        _ => refusal(status, id, ErrorData::invalid_request(text.into_owned(), None)),
    }
}

/// The revisions that are spoken, as `rmcp` has them.
pub(super) fn supported_versions() -> Vec<ProtocolVersion> {
    let known = ProtocolVersion::KNOWN_VERSIONS.iter();
    known.filter(|version| MCP_PROTOCOL_VERSIONS.contains(&version.as_str())).cloned().collect()
}
