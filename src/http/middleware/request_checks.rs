//! Refuses requests with a head that is too large, without exactly one `Host`, or with an unknown transfer coding.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Uri, Version};

use crate::api::error::{ApiError, Code};
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

/// Refuses a request without `Host`, or with two of them: a proxy in front may have used the other `Host` (RFC 9112
/// §3.2).
pub(in crate::http) async fn check_host(request: Request, next: Next) -> Response {
    match request.headers().get_all(HOST).iter().count() {
        1 => next.run(request).await,
        0 if request.version() == Version::HTTP_10 => next.run(request).await,
        0 => error_response(ApiError::no_host()),
        _ => invalid("The header `Host` is there twice. Send it once."),
    }
}

/// Refuses a request with a transfer coding other than `chunked`, because a proxy in front may have read the request
/// differently (RFC 9112 §6.1).
pub(in crate::http) async fn check_transfer_encoding(request: Request, next: Next) -> Response {
    if is_chunked_at_most(request.headers()) {
        return next.run(request).await;
    }
    invalid(
        "The header `Transfer-Encoding` is not exactly `chunked`. Send the body in chunks, or with its length, without any other encoding.",
    )
}

fn invalid(message: &str) -> Response {
    error_response(ApiError::new(Code::InvalidRequest, message))
}

fn is_chunked_at_most(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    let first = lines.next();
    first.is_none_or(|line| line.as_bytes().eq_ignore_ascii_case(b"chunked")) && lines.next().is_none()
}

/// The size of the headers on the wire. Each adds `: ` and a line end, 4 bytes together.
fn headers_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}
