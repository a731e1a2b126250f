//! What is asked of the head of every request, and added to the head of every answer.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue};

use super::error::problem_response;
use crate::problem::{MAX_HEAD_BYTES, Problem};

/// Refuses a request whose target and headers together are over [`MAX_HEAD_BYTES`].
pub(super) async fn check_size(request: Request, next: Next) -> Response {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target + headers_bytes(request.headers()) <= MAX_HEAD_BYTES {
        return next.run(request).await;
    }
    problem_response(&Problem::headers_too_large())
}

/// The size of headers as they stand in a request: each with `: ` and the end of its line.
fn headers_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// Says that nothing here is to be sniffed, framed or told about to others.
pub(super) async fn set_security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers
        .entry(CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    response
}
