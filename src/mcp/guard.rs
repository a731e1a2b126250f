//! Checks requests before `rmcp`, and refusals after it.
//!
//! `rmcp` parses any JSON and keeps the last of two equal members. So the body is bounded here in size, time and
//! values, and a repeated argument is refused.

use axum::response::{IntoResponse, Response};
use axum::{Json, body::Body, extract::Request};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Collected};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, JsonRpcError};

use crate::http::error::{ApiError, Interface};
use crate::http::request::body::{RequestBody, is_json};
use crate::http::request::json::{self, FlawKind};
use crate::http::{negotiation::weight, request::credential::query_gives_key};
use handbill_pages::service::ServiceError;
use handbill_pages::values::edit_key::holds_any_key;

/// `rmcp` repeats names of any length.
const MAX_REFUSAL_BYTES: usize = 1024;

pub(super) async fn admit(request: Request) -> Result<Request, Response> {
    let (mut head, body) = request.into_parts();
    if head.uri.query().is_some_and(query_gives_key) {
        return Err(ApiError::key_in_address().at(Interface::Tools));
    }
    let body = RequestBody::of(&head.headers, body).await.bytes(is_json).await;
    let bytes =
        body.map_err(|error| ApiError::of(&ServiceError::Body(error.into()), Interface::Tools).at(Interface::Tools))?;
    check_values(&bytes)
        .map_err(|error| (StatusCode::BAD_REQUEST, Json(JsonRpcError::new(None, error))).into_response())?;
    // `rmcp` requires both types by name, but sends no event stream here.
    if accepts_json(&head.headers) {
        head.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    }
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Request::from_parts(head, bytes.into()))
}

/// Refuses too many values, values in a text, and objects with a member twice.
fn check_values(bytes: &[u8]) -> Result<(), ErrorData> {
    json::read(bytes).map(drop).map_err(|flaw| {
        let message = format!("{} Send one JSON-RPC message in UTF-8.", flaw.message());
        match flaw.kind {
            FlawKind::Twice(_) => {
                ErrorData::invalid_request("The message has the same member twice. Send each once.", None)
            }
            FlawKind::TooManyValues | FlawKind::RawText => ErrorData::invalid_request(message, None),
            FlawKind::NotJson | FlawKind::Empty | FlawKind::ByteOrderMark | FlawKind::TooDeep => {
                ErrorData::parse_error(message, None)
            }
        }
    })
}

/// The most precise range counts; without the header, anything is accepted.
fn accepts_json(headers: &HeaderMap) -> bool {
    let mut ranges = ["application/json", "application/*", "*/*"].iter().filter_map(|range| weight(headers, range));
    !headers.contains_key(ACCEPT) || ranges.next().is_some_and(|weight| weight > 0.0)
}

/// `rmcp` says only the method's name of one that it knows.
const NOT_OFFERED: &str = "This server does not offer this method. It has tools (tools/list and tools/call) and a skill (skills/list, skills/get and resources/read).";

const NOT_UNDERSTOOD: &str =
    "The message was refused. Check its method, its names and the header fields that repeat them.";

/// A refusal that is long or repeats a key loses its text, and keeps its status and code.
pub(super) async fn discreet(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    if head.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // `rmcp` answers so to JSON of another shape; the media type was checked before.
        let advice = "The body is not a JSON-RPC message. Send one request or notification as one JSON object.";
        let refusal = JsonRpcError::new(None, ErrorData::invalid_request(advice, None));
        return (StatusCode::BAD_REQUEST, Json(refusal)).into_response();
    }
    let bytes = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    // Some methods answer an error with 200.
    let refusal = serde_json::from_slice::<JsonRpcError>(&bytes).ok();
    if !head.status.is_client_error() && refusal.is_none() {
        return Response::from_parts(head, Body::from(bytes));
    }
    let text = String::from_utf8_lossy(&bytes);
    let is_unknown_method = refusal.as_ref().is_some_and(|refusal| refusal.error.code == ErrorCode::METHOD_NOT_FOUND);
    // `rmcp` quotes a header in MCP's form for other text, `=?base64?…?=`, which may hold a key.
    let is_discreet =
        !is_unknown_method && bytes.len() <= MAX_REFUSAL_BYTES && !holds_any_key(&text) && !text.contains("base64");
    if is_discreet {
        return Response::from_parts(head, Body::from(bytes));
    }
    let mut refusal = refusal.unwrap_or_else(|| JsonRpcError::new(None, ErrorData::invalid_request("", None)));
    refusal.error.message = if is_unknown_method { NOT_OFFERED.into() } else { NOT_UNDERSTOOD.into() };
    refusal.error.data = None;
    head.headers.remove(CONTENT_TYPE);
    (head.status, Json(refusal)).into_response()
}
