//! Scripts of any site may call the API. There are no cookies, so a browser adds no credentials of its user.

use std::time::Duration;

use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION, CONTENT_TYPE, IF_MATCH,
    IF_NONE_MATCH,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tower_http::cors::{Any, CorsLayer};

/// How long browsers may cache the preflight.
const PREFLIGHT_AGE: Duration = Duration::from_hours(24);

/// The fields that scripts may read, as the header lists them.
const EXPOSED: &str = "etag,link,location,retry-after,www-authenticate,ratelimit,ratelimit-policy,x-request-id";

/// Answers preflights, and sets the fields of [`set_cors_headers`] on every other answer.
pub(in crate::http) fn layer() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH])
        .expose_headers(EXPOSED.split(',').map(HeaderName::from_static).collect::<Vec<_>>())
        .max_age(PREFLIGHT_AGE)
}

/// The fields that [`layer`] sets on an answer that is no preflight.
pub(in crate::http) fn set_cors_headers(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
}
