//! One JSON-RPC message, parsed and checked for shape (JSON-RPC 2.0; no batches since the revision 2025-06-18).

use http::StatusCode;
use rmcp::ErrorData;
use rmcp::model::{JsonObject, RequestId, RequestMetaObject};
use serde_json::{Map, Value};

use super::error::ProtocolRefusal;
use crate::api::request::body::why_not_json;
use crate::api::request::json::{self, Kept};

/// Longest `id` that is accepted as a string, in bytes: it comes back in the answer, and is kept until then. A client
/// counts, or uses a UUID of 36 bytes.
const MAX_ID_BYTES: usize = 256;

/// The parameters besides `arguments` that the methods of this server read, and those that the header `Mcp-Name` repeats.
const PARAMETERS: [&str; 7] = ["capabilities", "clientInfo", "cursor", "name", "protocolVersion", "taskId", "uri"];

/// A well-formed message, without what nobody reads.
#[derive(Debug)]
pub(super) struct Message {
    /// `None` for a notification.
    pub(super) id: Option<RequestId>,
    /// `None` for an answer, which this server never asks for.
    pub(super) method: Option<String>,
    /// The `arguments` and the [`PARAMETERS`].
    pub(super) params: JsonObject,
    /// The client's statements about itself and the message.
    pub(super) meta: RequestMetaObject,
}

impl Message {
    /// Parses the body of a request. `of_meta` are the members of `_meta` that are read. A refusal names the message's `id`
    /// if that could be read.
    pub(super) fn parse(bytes: &[u8], of_meta: &[&str]) -> Result<Self, ProtocolRefusal> {
        let kept = |is_read| if is_read { Kept::Short } else { Kept::Nothing };
        let of_meta = |name: &str| kept(of_meta.contains(&name));
        let of_params = |name: &str| match name {
            "_meta" => Kept::Members(&of_meta),
            "arguments" => Kept::All,
            _ => kept(PARAMETERS.contains(&name)),
        };
        let of_message = |name: &str| match name {
            "params" => Kept::Members(&of_params),
            // Only the names of these are read, and nothing in them.
            "result" | "error" => Kept::Members(&|_| Kept::Nothing),
            _ => kept(["jsonrpc", "id", "method"].contains(&name)),
        };
        let json::Read { value, repeated } = json::read(bytes, Kept::Members(&of_message)).map_err(|error| {
            let message = format!("{} Send one JSON-RPC message in UTF-8.", why_not_json(bytes, &error));
            ProtocolRefusal::new(StatusCode::BAD_REQUEST, ErrorData::parse_error(message, None))
        })?;
        let mut members = match value {
            Value::Object(members) => members,
            Value::Array(_) => {
                let message = "Batches are not accepted. Send each message in a request of its own.";
                return Err(ProtocolRefusal::invalid_request(message));
            }
            _ => {
                return Err(ProtocolRefusal::invalid_request(
                    "The body is not a JSON-RPC message. Send one JSON object.",
                ));
            }
        };
        let id = parse_id(members.remove("id"))?;
        Self::from_members(id.clone(), members, repeated.is_none()).map_err(|refusal| refusal.to(id))
    }

    fn from_members(id: Option<RequestId>, mut members: JsonObject, is_unique: bool) -> Result<Self, ProtocolRefusal> {
        if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(ProtocolRefusal::invalid_request("The member `jsonrpc` is not \"2.0\". Send exactly that."));
        }
        let is_answer = members.contains_key("result") || members.contains_key("error");
        let method = match members.remove("method") {
            Some(Value::String(method)) => Some(method),
            None if is_answer => None,
            _ => {
                let message = "The member `method` is missing or not a string. Send the name of a method.";
                return Err(ProtocolRefusal::invalid_request(message));
            }
        };
        let mut params = match members.remove("params") {
            Some(Value::Object(params)) => params,
            None => Map::new(),
            Some(_) => {
                let message = "The member `params` is not an object. Send the parameters by name.";
                return Err(ProtocolRefusal::new(StatusCode::BAD_REQUEST, ErrorData::invalid_params(message, None)));
            }
        };
        // If two members had the same name, only the last would count, so a mistaken call would do something else
        // than it says.
        if !is_unique {
            return Err(ProtocolRefusal::invalid_request("The message has the same member twice. Send each once."));
        }
        let meta = match params.remove("_meta") {
            Some(Value::Object(meta)) => meta.into(),
            None | Some(Value::Null) => RequestMetaObject::default(),
            Some(_) => {
                return Err(ProtocolRefusal::invalid_request("The parameter `_meta` is not an object. Send one."));
            }
        };
        Ok(Self { id, method, params, meta })
    }
}

/// The `id` comes back in the answer exactly as it was sent, so only values that can be sent back unchanged are
/// accepted.
fn parse_id(id: Option<Value>) -> Result<Option<RequestId>, ProtocolRefusal> {
    let id = match id {
        None => return Ok(None),
        Some(Value::String(id)) if id.len() > MAX_ID_BYTES => {
            return Err(ProtocolRefusal::invalid_request("The `id` has more than 256 bytes. Send a shorter one."));
        }
        Some(Value::String(id)) => Some(RequestId::String(id.into())),
        Some(id) => id.as_i64().map(RequestId::Number),
    };
    let message = "The `id` is neither a string nor an integer of 64 bits. Send one that is.";
    id.map(Some).ok_or_else(|| ProtocolRefusal::invalid_request(message))
}
