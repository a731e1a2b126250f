//! Every route of the public service.

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use http::{Method, Uri};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::error::ApiError;
use super::error_response::{Endpoint, shows_key};
use super::listener::LargeAnswers;
use super::mcp_host::{AllowedHosts, McpHost};
use super::middleware::{CommonHeaders, Layers, WARNING_PAUSE, around};
use super::representation::Representation;
use super::state::AppState;
use super::{discovery, metadata, openapi, pages, reads, site, token};
use crate::telemetry::http::RequestTelemetry;
use handbill_pages::log_throttle::LogThrottle;
use handbill_pages::values::contact::Contact;
use handbill_pages::values::origin::Origin;

/// As JSON.
pub fn openapi_document(base_url: &Origin, contact: Option<&Contact>) -> String {
    openapi::document(api(openapi::description()).into_openapi(), base_url, contact)
}

/// `tools` are the route of `/mcp`, for the hosts and origins in `allowed`.
pub fn front(http: AppState, tools: MethodRouter, allowed: AllowedHosts, telemetry: RequestTelemetry) -> Router {
    let (http, telemetry) = (Arc::new(http), Arc::new(telemetry));
    let layers = Layers {
        proxies: http.proxies.clone(),
        warnings: LogThrottle::new(WARNING_PAUSE),
        mcp_host: McpHost::of(&http.base_url, &http.site),
        large_answers: LargeAnswers::default(),
        finish: CommonHeaders::new(&http.base_url, allowed),
        telemetry: Arc::clone(&telemetry),
    };
    routes(&http, &telemetry).route(metadata::path::MCP, tools).layer(from_fn_with_state(Arc::new(layers), around))
}

/// Without the tools, which have their own preflights.
fn routes(http: &Arc<AppState>, telemetry: &RequestTelemetry) -> Router {
    let openapi = Representation::document(
        "application/json",
        openapi_document(&http.base_url, http.site.abuse_contact.as_ref()),
    );
    let home = discovery::home_markdown(&http.base_url, http.service.quotas(), &http.site);
    let home = site::home_route(http, home);
    let (pages, help) = (site::editor::pages(http), site::editor::help(http));
    let (api, _) = api(openapi::description()).split_for_parts();
    api.merge(discovery::routes(&http.base_url, http.service.quotas(), &http.site, &telemetry.clock))
        .merge(site::files())
        .route(metadata::path::OPENAPI, openapi.route())
        .route("/", home.post(site::form::post))
        .route("/pages", pages.route())
        .route(metadata::path::HELP, help.route())
        .route("/assets/{version}/{name}", get(site::editor::file))
        .route("/{slug}", get(reads::page))
        .route("/{slug}/edit", get(site::editor::edit))
        .fallback(site::not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(Arc::clone(http))
}

/// Axum adds `Allow`.
async fn method_not_allowed(
    State(http): State<Arc<AppState>>,
    route: MatchedPath,
    method: Method,
    uri: Uri,
) -> Response {
    let is_of_pages = route.as_str().starts_with("/api/pages") || route.as_str().starts_with("/{slug}");
    if is_of_pages && shows_key(&uri) {
        return http.key_shown(&method);
    }
    let error = match route.as_str() {
        // `curl -T` sends a file to a page that is not there yet.
        "/{slug}" if method != Method::PUT => ApiError::not_at_the_page(),
        "/api/pages/{slug}" => ApiError::not_on_a_page(),
        _ => ApiError::method_not_allowed(&method, &http.base_url),
    };
    error.at(Endpoint::of(&uri))
}

fn api(document: OpenApi) -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::with_openapi(document)
        .routes(routes!(pages::create))
        .routes(routes!(pages::read, pages::update, pages::delete))
        .routes(routes!(token::token))
}
