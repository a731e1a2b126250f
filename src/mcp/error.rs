//! Errors as clients of the protocol meet them: a tool's failure, and the refusal of a request.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonRpcError, RequestId};

use crate::api::error::ApiError;
use crate::api::types::ToolErrorBody;

/// The result of a tool that failed: JSON as text. Not as structured content, which clients hold against the output
/// schema also where it is an error.
pub(super) fn error_result(error: &ApiError) -> CallToolResult {
    let body = ToolErrorBody {
        error: error.code.as_str(),
        message: error.message.clone(),
        status: error.code.status(),
        retry_after: error.retry_after,
    };
    CallToolResult::error(vec![ContentBlock::text(serde_json::to_string(&body).expect("it is made of strings"))])
}

/// The answer to an HTTP request that is refused: a JSON-RPC error with `status`.
pub(super) fn refusal(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Response {
    (status, Json(JsonRpcError::new(id, error))).into_response()
}

/// There is no stream to get and no session to delete. Axum adds `Allow`.
pub(super) async fn method_not_allowed() -> Response {
    let message = "This address takes `POST` alone: it has no stream to read and no session to end. Send one JSON-RPC message in each `POST`.";
    refusal(StatusCode::METHOD_NOT_ALLOWED, None, ErrorData::invalid_request(message, None))
}
