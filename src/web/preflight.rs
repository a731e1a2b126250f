//! Scripts of any site may call the API. There are no cookies, so a browser adds no credentials of its user.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use tower_http::cors::{Any, CorsLayer};

use crate::api::preflight;

/// Answers what browsers ask before they let a script send a request.
pub(super) async fn answer(request: Request, next: Next) -> Response {
    if request.method() != Method::OPTIONS {
        return next.run(request).await;
    }
    let rules = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH]);
    preflight::answer(rules, request).await
}
