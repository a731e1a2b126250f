//! Which scripts of other sites may call the service, and the answers to preflights.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use tower::{Layer, ServiceExt, service_fn};
use tower_http::cors::{Any, CorsLayer};

/// How long a browser may remember the answer.
const PREFLIGHT_AGE: Duration = Duration::from_hours(24);

/// Scripts of any site may call the API: without cookies, a browser adds no credentials.
pub(super) async fn of_api(request: Request) -> Response {
    let rules = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH]);
    preflight(rules, request).await
}

pub async fn preflight(rules: CorsLayer, request: Request) -> Response {
    let Ok(response) = rules.max_age(PREFLIGHT_AGE).layer(service_fn(never_asked)).oneshot(request).await;
    response
}

// An async closure here breaks incremental builds (rustc 1.95, "unstable fingerprints for evaluate_obligation").
async fn never_asked(_: Request) -> Result<Response, Infallible> {
    Ok(Response::default())
}
