//! The revisions of the Model Context Protocol, and what a client of each sends.

use serde_json::{Value, json};

/// The revision without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";

/// The revisions that open with `initialize`.
pub(crate) const LEGACY: [&str; 2] = ["2025-11-25", "2025-06-18"];

/// A revision of clients that name none.
pub(crate) const UNNAMED: &str = "2025-03-26";

/// Every revision, the newest first.
pub(crate) const REVISIONS: [&str; 3] = [MODERN, LEGACY[0], LEGACY[1]];

/// A message as a client of `revision` writes it.
pub(crate) fn message(revision: &str, method: &str, mut params: Value) -> Value {
    if revision == MODERN {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// The headers that `revision` asks for beside `message`.
pub(crate) fn headers(revision: &'static str, message: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("accept", "application/json, text/event-stream".to_owned())];
    // A client that has agreed on nothing yet, or is older than this header, sends none.
    if revision != UNNAMED {
        headers.push(("mcp-protocol-version", revision.to_owned()));
    }
    if revision == MODERN {
        headers.push(("mcp-method", text(&message["method"])));
        if message["params"]["name"].is_string() {
            headers.push(("mcp-name", text(&message["params"]["name"])));
        }
    }
    headers
}

/// The parameters with which a client of `revision` begins.
pub(crate) fn opening(revision: &str) -> Value {
    json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
}
