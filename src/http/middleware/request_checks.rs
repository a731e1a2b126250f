//! Refuses requests with a head that is too large.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, Uri};

use crate::api::error::ApiError;
use crate::api::request::MAX_HEAD_BYTES;
use crate::http::error::error_response;

/// Refuses a request if its target and headers together are larger than [`MAX_HEAD_BYTES`].
pub(in crate::http) async fn check_size(request: Request, next: Next) -> Response {
    if is_too_large(request.uri(), request.headers()) {
        return error_response(ApiError::headers_too_large());
    }
    next.run(request).await
}

/// Whether a target and headers together are larger than [`MAX_HEAD_BYTES`].
pub(in crate::http) fn is_too_large(target: &Uri, headers: &HeaderMap) -> bool {
    let target = target.path_and_query().map_or(0, |target| target.as_str().len());
    target + headers_bytes(headers) > MAX_HEAD_BYTES
}

/// The size of the headers on the wire. Each adds `: ` and a line end, 4 bytes together.
fn headers_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}
