//! Errors of the protocol: the refusal of a message, and the body of a failed tool call.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, JsonRpcError, RequestId};
use serde_json::json;

use crate::api::error::ApiError;
use crate::api::types::ToolErrorBody;

/// A message that is answered with a JSON-RPC error. The error never repeats what the client sent, which may hold an
/// edit key.
#[derive(Debug)]
pub(super) struct ProtocolRefusal {
    status: StatusCode,
    id: Option<RequestId>,
    error: ErrorData,
    /// Whole seconds after which trying again makes sense.
    retry_after: Option<u64>,
}

impl ProtocolRefusal {
    /// An answer with this HTTP status.
    pub(super) fn new(status: StatusCode, error: ErrorData) -> Self {
        Self { status, id: None, error, retry_after: None }
    }

    /// 400 with the code for something that is no valid message.
    pub(super) fn invalid_request(message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorData::invalid_request(message, None))
    }

    /// A method that this server does not have. In revisions without a handshake (`is_modern`) the HTTP status says so
    /// too.
    pub(super) fn unknown_method(is_modern: bool) -> Self {
        let message = "This server does not have this method. It has tools: tools/list and tools/call.";
        let status = if is_modern { StatusCode::NOT_FOUND } else { StatusCode::OK };
        Self::new(status, ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }

    /// Parameters that do not fit a known method. HTTP's status is 200, since the message itself is valid.
    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, ErrorData::invalid_params(message.into(), None))
    }

    /// This refusal as the answer to the message with `id`.
    pub(super) fn to(self, id: Option<RequestId>) -> Self {
        Self { id, ..self }
    }
}

/// A refusal for a reason that REST has too. The code and status of REST are in the `data`.
impl From<ApiError> for ProtocolRefusal {
    fn from(error: ApiError) -> Self {
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let data = json!({"error": error.code.as_str(), "status": status.as_u16()});
        Self {
            retry_after: error.retry_after,
            ..Self::new(status, ErrorData::invalid_request(error.message, Some(data)))
        }
    }
}

impl IntoResponse for ProtocolRefusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(JsonRpcError::new(self.id, self.error))).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// The body of an answer to a request that did not get as far as its message.
pub(crate) fn error_body(error: ApiError) -> JsonRpcError {
    let ProtocolRefusal { id, error, .. } = error.into();
    JsonRpcError::new(id, error)
}

/// The text of a failed tool call, as JSON.
pub(super) fn tool_error(error: &ApiError) -> String {
    let body = ToolErrorBody {
        error: error.code.as_str(),
        message: error.message.clone(),
        status: error.code.status(),
        retry_after: error.retry_after,
    };
    serde_json::to_string(&body).expect("strings and numbers serialise")
}

/// The answer to every HTTP method but `POST`.
pub(super) fn method_not_allowed() -> ProtocolRefusal {
    let message = "This address accepts only `POST`: it has no stream to read and no session to end. Send one JSON-RPC message in each `POST`.";
    ProtocolRefusal::new(StatusCode::METHOD_NOT_ALLOWED, ErrorData::invalid_request(message, None))
}
