//! What to do next, for refusals of `rmcp` that do not say it. What they repeat of the request is left out: it may hold
//! an edit key, in whatever form.

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde_json::json;

use crate::api::metadata::MCP_PROTOCOL_VERSIONS;
use crate::domain::edit_key::PREFIX;

/// Longest name of a revision that is repeated, in bytes. Nothing that gives a key away is so short.
const LONGEST_REPEATED: usize = 16;

/// The headers that must be as the message, each with what of the message it is.
const HEADERS: [(&str, &str); 3] = [
    ("MCP-Protocol-Version", "the revision in `_meta`, or in the `params` of `initialize`"),
    ("Mcp-Method", "the message's `method`"),
    ("Mcp-Name", "the name of the tool, `params.name`"),
];

/// A header that names a revision that is not spoken. What is too long for a revision is not repeated.
pub(super) fn unsupported_version(requested: &str) -> ErrorData {
    let is_short = requested.len() <= LONGEST_REPEATED && !requested.contains(PREFIX);
    ErrorData::new(
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
        format!("The revision is not supported. Send one of {}.", MCP_PROTOCOL_VERSIONS.join(", ")),
        Some(json!({"requested": if is_short { requested } else { "" }, "supported": MCP_PROTOCOL_VERSIONS})),
    )
}

/// `refused` in words that help, where `rmcp`'s own do not.
pub(super) fn advised(refused: &ErrorData) -> Option<ErrorData> {
    let header = || HEADERS.iter().find(|(name, _)| refused.message.contains(name));
    let what = match refused.code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
            let requested = refused.data.as_ref().and_then(|data| data.get("requested")?.as_str()).unwrap_or_default();
            return Some(unsupported_version(requested));
        }
        ErrorCode::HEADER_MISMATCH => {
            let (name, value) = header()?;
            format!("The header `{name}` is missing or says other than the message. Send {value} in it.")
        }
        ErrorCode::INVALID_REQUEST if refused.message.contains("initialize params") => {
            let (name, value) = header()?;
            format!("The header `{name}` says other than the message. Send {value} in it, or leave it out.")
        }
        ErrorCode::INVALID_REQUEST if refused.message.contains("JSON-RPC responses") => {
            "This server sends no requests and so takes no answers. Send a request or a notification.".to_owned()
        }
        ErrorCode::METHOD_NOT_FOUND if !refused.message.contains(' ') => {
            super::handler::unknown_method().message.into()
        }
        _ => return None,
    };
    Some(ErrorData::new(refused.code, what, None))
}
