//! Which revision of the protocol a message speaks, and whether its headers agree with it.
//!
//! Revisions up to 2025-11-25 begin with `initialize` and name themselves in the header `MCP-Protocol-Version`; without
//! that header the revision is 2025-03-26. From 2026-07-28 there is no handshake: every request names its revision in
//! `_meta` and in the header, and repeats its method and tool in headers, so that a proxy can route the request without
//! reading its body.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, InitializeRequestParams, JsonObject, ProtocolVersion, RequestMetaObject};
use serde_json::{Value, json};

use super::error::ProtocolRefusal;
use super::message::Message;
use crate::api::metadata::MCP_PROTOCOL_VERSIONS;
use handbill_core::domain::edit_key::PREFIX;

const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// First revision without a handshake. Revisions are dates, so text compares as time.
const MODERN: ProtocolVersion = ProtocolVersion::V_2026_07_28;

const FIRST_WITH_RESOURCE_LINKS: ProtocolVersion = ProtocolVersion::V_2025_06_18;

/// Longest name of a revision that an error repeats, in bytes. An edit key is longer.
const MAX_REPEATED_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    /// Whether results have the shape of the revisions without a handshake.
    pub(super) is_modern: bool,
    /// Whether a result may have a link to a resource beside its text. A client that names no revision may not know such
    /// links.
    pub(super) has_resource_links: bool,
}

/// The revisions that this server speaks, oldest first.
pub(super) fn supported() -> Vec<ProtocolVersion> {
    let known = ProtocolVersion::KNOWN_VERSIONS.iter();
    known.filter(|version| is_supported(version.as_str())).cloned().collect()
}

/// Refuses a header that names an unsupported revision. If `_meta` names one too, [`agree`] compares both first.
pub(super) fn check_version_header(headers: &HeaderMap, message: &Message) -> Result<(), ProtocolRefusal> {
    let Some(requested) = headers.get(VERSION_HEADER) else { return Ok(()) };
    let requested = String::from_utf8_lossy(requested.as_bytes());
    let is_compared_later = message.id.is_some() && message.meta.protocol_version().is_some();
    if is_compared_later || is_supported(&requested) { Ok(()) } else { Err(unsupported(&requested)) }
}

/// The revision that `initialize` agrees on: the client's, or the newest that has a handshake.
///
/// The client may not know yet which headers to send, so no header is required. A header that contradicts the body is
/// refused.
pub(super) fn agree_in_handshake(
    headers: &HeaderMap,
    params: &InitializeRequestParams,
) -> Result<ProtocolVersion, ProtocolRefusal> {
    let requested = &params.protocol_version;
    let header = headers.get(VERSION_HEADER);
    if header.is_some_and(|header| header.as_bytes() != requested.as_str().as_bytes()) {
        let message = "The header `MCP-Protocol-Version` contradicts `protocolVersion` in the `params`. Send the same revision in both, or leave out the header.";
        return Err(ProtocolRefusal::invalid_request(message));
    }
    if header.is_some() && is_modern(requested.as_str()) && headers.contains_key(METHOD_HEADER) {
        check_method_header(headers, "initialize")?;
    }
    let is_ours = requested.has_initialize() && is_supported(requested.as_str());
    Ok(if is_ours { requested.clone() } else { ProtocolVersion::LATEST_WITH_INITIALIZE })
}

/// The revision of `message`, which calls `method`. A notification only has headers that can be wrong.
pub(super) fn agree(headers: &HeaderMap, method: &str, message: &Message) -> Result<Revision, ProtocolRefusal> {
    let header = headers.get(VERSION_HEADER).and_then(|header| header.to_str().ok());
    let has_modern_header = header.is_some_and(is_modern);
    if has_modern_header {
        check_method_header(headers, method)?;
        check_name_header(headers, method, &message.params)?;
    }
    let has_resource_links = |version: &str| version >= FIRST_WITH_RESOURCE_LINKS.as_str();
    let handshake = Revision { is_modern: false, has_resource_links: header.is_some_and(has_resource_links) };
    if message.id.is_none() {
        return Ok(handshake);
    }
    let is_discover = method == "server/discover";
    let Some(version) = message.meta.protocol_version() else {
        return if is_discover || has_modern_header { Err(missing_meta(&message.meta)) } else { Ok(handshake) };
    };
    let version = version.as_str();
    if header != Some(version) {
        let message = "The header `MCP-Protocol-Version` is missing or contradicts the message. Send the revision in `_meta` in it.";
        return Err(mismatch(message));
    }
    if !is_supported(version) {
        return Err(unsupported(version));
    }
    if (is_discover || is_modern(version)) && !message.meta.missing_required_keys(&MODERN).is_empty() {
        return Err(missing_meta(&message.meta));
    }
    Ok(Revision { is_modern: is_modern(version), has_resource_links: has_resource_links(version) })
}

fn is_supported(version: &str) -> bool {
    MCP_PROTOCOL_VERSIONS.contains(&version)
}

fn is_modern(version: &str) -> bool {
    version >= MODERN.as_str()
}

fn check_method_header(headers: &HeaderMap, method: &str) -> Result<(), ProtocolRefusal> {
    let message = "The header `Mcp-Method` is missing, there twice, or contradicts the message. Send the message's `method` in it.";
    if sole(headers, &METHOD_HEADER) == Some(method) { Ok(()) } else { Err(mismatch(message)) }
}

/// Checks the header for methods whose parameters name what they are about.
fn check_name_header(headers: &HeaderMap, method: &str, params: &JsonObject) -> Result<(), ProtocolRefusal> {
    let parameter = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    let Some(expected) = params.get(parameter).and_then(Value::as_str) else { return Ok(()) };
    let named = sole(headers, &NAME_HEADER).and_then(decode);
    let message = "The header `Mcp-Name` is missing, there twice, or contradicts the message. Send the name of the tool, `params.name`, in it.";
    if named.as_deref() == Some(expected) { Ok(()) } else { Err(mismatch(message)) }
}

/// The only value of a header; `None` if there are several, since a proxy may have routed by another of them.
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(HeaderValue::to_str)?.ok()?;
    values.next().is_none().then_some(value)
}

/// The text in a header. Names that a header cannot carry are sent as `=?base64?…?=`.
fn decode(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix("=?base64?").and_then(|inner| inner.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    }
}

fn mismatch(message: &'static str) -> ProtocolRefusal {
    ProtocolRefusal::new(StatusCode::BAD_REQUEST, ErrorData::header_mismatch(message, None))
}

fn missing_meta(meta: &RequestMetaObject) -> ProtocolRefusal {
    let missing = meta.missing_required_keys(&MODERN).join(", ");
    let message = format!("Members of `_meta` are missing or of the wrong type. Send {missing}.");
    ProtocolRefusal::new(StatusCode::BAD_REQUEST, ErrorData::invalid_params(message, None))
}

/// Repeats the requested revision only if it is too short to hold a secret.
fn unsupported(requested: &str) -> ProtocolRefusal {
    let is_short = requested.len() <= MAX_REPEATED_BYTES && !requested.contains(PREFIX);
    let message = format!("The revision is not supported. Send one of {}.", MCP_PROTOCOL_VERSIONS.join(", "));
    let data = json!({"requested": if is_short { requested } else { "" }, "supported": MCP_PROTOCOL_VERSIONS});
    ProtocolRefusal::new(
        StatusCode::BAD_REQUEST,
        ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data)),
    )
}
