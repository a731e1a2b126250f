//! Final pass over every response, outside all other layers. It writes the bodies of errors.
//!
//! It wraps the whole router for two reasons. Only the router knows which methods an address takes. And the token endpoint
//! needs its own headers and its own form of error (RFC 6749), whichever layer answers.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, LINK, PRAGMA};
use http::{HeaderMap, HeaderValue};

use crate::api::error::{ApiError, Code};
use crate::api::metadata;
use crate::api::types::{ErrorBody, TokenErrorBody};
use crate::domain::origin::Origin;

/// The `Link` to the OpenAPI document of a service at `base_url` (RFC 8631).
pub(in crate::http) fn service_desc(base_url: &Origin) -> HeaderValue {
    let link = format!(r#"<{base_url}{}>; rel="service-desc"; type="application/json""#, metadata::path::OPENAPI);
    HeaderValue::try_from(link).expect("an origin is ASCII")
}

/// Writes the body of an error, and adds the headers that depend on the path.
pub(in crate::http) async fn render_errors(
    State(service_desc): State<HeaderValue>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_token = path == metadata::path::TOKEN;
    let is_interface = is_token || path == "/" || path == metadata::path::HELP || path.starts_with("/api/");
    let mut response = next.run(request).await;

    let error = response.extensions_mut().remove::<ApiError>();
    if is_interface || error.is_some() {
        response.headers_mut().append(LINK, service_desc);
    }
    if is_token {
        // RFC 6749 §5.1: the response may hold a token. An error should not be cached either.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.headers_mut().insert(PRAGMA, HeaderValue::from_static("no-cache"));
    }
    if let Some(error) = error.map(|error| with_methods(error, response.headers())) {
        let body = if is_token {
            serde_json::to_vec(&TokenErrorBody::new(error))
        } else {
            serde_json::to_vec(&ErrorBody::new(error))
        };
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Axum may have set the length of the empty body. The server adds the length of the new one.
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(body.expect("an error is made of strings"));
    }
    response
}

/// Returns `error`. An error for a wrong method also gets the methods in `Allow`.
fn with_methods(error: ApiError, headers: &HeaderMap) -> ApiError {
    let lines = headers.get_all(ALLOW).iter().filter_map(|line| line.to_str().ok());
    let methods: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    if error.code == Code::MethodNotAllowed && !methods.is_empty() {
        ApiError::method_not_allowed_but(&methods)
    } else {
        error
    }
}
