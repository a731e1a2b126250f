//! Answers, as bytes, to heads that hyper never sees. These answers have the header fields that every answer has.

use http::StatusCode;
use serde_json::json;

use crate::api::error::ApiError;

/// `error` as a complete answer that closes the connection. `request_id` is in hexadecimal digits. Web pages of any
/// origin may read this answer, like any other.
pub(super) fn refusal(error: &ApiError, request_id: &str) -> Vec<u8> {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let body = json!({"error": error.code.as_str(), "message": error.message}).to_string();
    let retry = error.retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\naccess-control-allow-origin: *\r\n\
         access-control-expose-headers: retry-after,x-request-id\r\nx-content-type-options: nosniff\r\n\
         referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'; frame-ancestors 'none'\r\n\
         x-request-id: {request_id}\r\n{retry}content-length: {length}\r\n\r\n{body}",
        length = body.len(),
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_whole_answer_in_json() {
        let text = String::from_utf8(refusal(&ApiError::no_room(), "00000000deadbeef")).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n"), "{head}");
        assert!(head.contains("\r\nretry-after: 5\r\n"), "{head}");
        assert!(head.contains("\r\nx-request-id: 00000000deadbeef\r\n"), "{head}");
        assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"], "unavailable");
    }
}
