//! The last hand on every answer, when all that is inside has made it.
//!
//! It stands around the whole router, because only there is it known which methods an address takes, and because the
//! token endpoint owes its clients headers and a shape of error of its own, whatever part of Handbill answers for it.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, LINK, PRAGMA};
use http::{HeaderMap, HeaderValue};

use crate::api::error::{ApiError, Code};
use crate::api::metadata;
use crate::api::types::{ErrorBody, TokenErrorBody};
use crate::domain::origin::Origin;

/// The `Link` to the description of the service at `base_url`, for machines (RFC 8631).
pub(in crate::http) fn service_desc(base_url: &Origin) -> HeaderValue {
    let link = format!(r#"<{base_url}{}>; rel="service-desc"; type="application/json""#, metadata::path::OPENAPI);
    HeaderValue::try_from(link).expect("an origin is ASCII")
}

/// Adds what only the whole service knows to the answer.
pub(in crate::http) async fn render_errors(
    State(service_desc): State<HeaderValue>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_token = path == metadata::path::TOKEN;
    let is_interface = is_token || path == "/" || path.starts_with("/api/");
    let mut response = next.run(request).await;

    let error = response.extensions_mut().remove::<ApiError>();
    if is_interface || error.is_some() {
        response.headers_mut().append(LINK, service_desc);
    }
    if is_token {
        // RFC 6749 §5.1: the answer may hold a token, and nobody should keep an error either.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.headers_mut().insert(PRAGMA, HeaderValue::from_static("no-cache"));
    }
    if let Some(error) = error.map(|error| with_methods(error, response.headers())) {
        let body = if is_token {
            serde_json::to_vec(&TokenErrorBody::new(error))
        } else {
            serde_json::to_vec(&ErrorBody::new(error))
        };
        // The length of what was said before; the server adds that of what is said now.
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(body.expect("an error is made of strings"));
    }
    response
}

/// `problem`, naming the methods in `Allow` where the method was wrong.
fn with_methods(error: ApiError, headers: &HeaderMap) -> ApiError {
    let lines = headers.get_all(ALLOW).iter().filter_map(|line| line.to_str().ok());
    let methods: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    if error.code == Code::MethodNotAllowed && !methods.is_empty() {
        ApiError::method_not_allowed_but(&methods)
    } else {
        error
    }
}
