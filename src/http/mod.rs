//! HTTP: every route and every layer, in order.

mod discovery;
mod error;
mod etag;
mod extract;
pub mod middleware;
mod pages;
mod robots;
mod routes;
pub mod site;
mod state;
mod static_response;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use http::Method;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{Any, CorsLayer};

use self::discovery::openapi;
use self::middleware::forwarded_warning::Untrusted;
use self::middleware::{answer_budget, forwarded_warning, render_errors, request_checks, security_headers};
pub use self::state::Http;
use self::static_response::StaticResponse;
use crate::api::error::ApiError;
use crate::api::metadata;
use crate::domain::origin::Origin;
use crate::telemetry::http::{RequestTelemetry, observe};

/// The OpenAPI document of a service at `base_url`, as JSON.
pub fn openapi_document(base_url: &Origin) -> String {
    openapi::document(routes::api(openapi::description()).into_openapi(), base_url)
}

/// Every route, `mcp` included, which is [`guarded`] already, with every layer around it.
///
/// A request passes the layers from the last to the first: it is observed, gets its CORS headers whatever becomes of
/// it, and is refused if its head is too large or there is no room for its answer; then comes the route. Around them all the answer is finished.
pub fn router(http: Http, mcp: Router, telemetry: RequestTelemetry) -> Router {
    let openapi = StaticResponse::new("application/json", openapi_document(&http.base_url));
    let home = site::home(&http);
    let discovery = discovery::routes(&http.base_url, http.service.quotas());
    let service_desc = render_errors::service_desc(&http.base_url);
    let untrusted = Untrusted::new(http.proxies.clone(), telemetry.clone());
    let http = Arc::new(http);
    let (api, _) = routes::api(openapi::description()).split_for_parts();
    let rest = api
        .merge(discovery)
        .route(metadata::path::OPENAPI, openapi.route())
        .route("/", home.route())
        .route("/robots.txt", get(site::robots_txt))
        .route("/favicon.ico", get(site::favicon))
        .route("/assets/{name}", get(site::asset))
        .route("/{slug}", get(site::page))
        .fallback(site::not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(http);
    // The tools answer browsers by rules of their own.
    let routes = guarded(rest.layer(from_fn(request_checks::check_host)))
        .layer(cors())
        .merge(mcp)
        .layer(from_fn(security_headers::set_security_headers))
        .layer(from_fn_with_state(untrusted, forwarded_warning::notice))
        .layer(from_fn_with_state(telemetry, observe));
    // Around a router as a whole, where the answer has the `Allow` that routing adds.
    Router::new().fallback_service(routes).layer(from_fn_with_state(service_desc, render_errors::render_errors))
}

/// `routes`, none of which can be reached by too large a head or without room for its answer, or end a connection by a
/// panic. It stands within the layers that open answers to browsers, so that a page may read its refusals too.
pub fn guarded(routes: Router) -> Router {
    routes
        .layer(CatchPanicLayer::custom(internal_error))
        .layer(from_fn(answer_budget::take_room))
        .layer(from_fn(request_checks::check_transfer_encoding))
        .layer(from_fn(request_checks::check_size))
}

/// Any page on the web may call the API: there are no cookies, so a browser adds nothing that its user has not.
fn cors() -> CorsLayer {
    use http::HeaderName;
    use http::header::{
        ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LINK, LOCATION, RETRY_AFTER,
        WWW_AUTHENTICATE,
    };

    /// How long a browser may remember a preflight's answer.
    const PREFLIGHT_AGE: std::time::Duration = std::time::Duration::from_hours(24);
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH])
        .expose_headers([
            ETAG,
            LINK,
            LOCATION,
            RETRY_AFTER,
            WWW_AUTHENTICATE,
            HeaderName::from_static("ratelimit"),
            HeaderName::from_static("ratelimit-policy"),
            HeaderName::from_static("x-request-id"),
        ])
        .max_age(PREFLIGHT_AGE)
}

/// Axum adds `Allow`, which it knows from the routes.
async fn method_not_allowed() -> Response {
    error::error_response(ApiError::method_not_allowed())
}

/// The panic's message and place are on standard error already.
fn internal_error(_panic: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("a handler panicked");
    error::error_response(ApiError::internal())
}
