//! Every route of the public service.

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, State};
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::get;
use http::Uri;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::discovery::{self, openapi};
use super::error::ApiError;
use super::error_response::{error_response, service_error_response, shows_key};
use super::finish::Finish;
use super::forwarded_warning::ForwardedWarning;
use super::front::{Front, Inner};
use super::mcp_host::McpHost;
use super::named_routes::{NamedRoutes, PAGE, RouteNames};
use super::representation::Representation;
use super::state::Http;
use super::{cors, metadata, pages, reads, site, token};
use crate::mcp::Tools;
use crate::telemetry::http::RequestTelemetry;
use handbill_core::domain::contact::Contact;
use handbill_core::domain::origin::Origin;
use handbill_core::service::ServiceError;

/// The OpenAPI document of a service at `base_url`, as JSON. `contact` is whom readers tell about a page.
pub fn openapi_document(base_url: &Origin, contact: Option<&Contact>) -> String {
    openapi::document(api(openapi::description()).into_openapi(), base_url, contact)
}

pub fn front(http: Http, tools: Tools, telemetry: RequestTelemetry) -> Front {
    let (http, telemetry) = (Arc::new(http), Arc::new(telemetry));
    let (router, route_names) = router(&http, &telemetry);
    Front::new(Inner {
        tools,
        router,
        route_names,
        warning: ForwardedWarning::new(http.proxies.clone(), Arc::clone(&telemetry)),
        finish: Finish::new(&http.base_url),
        mcp_host: McpHost::of(&http.base_url, &http.site),
        http,
        telemetry,
    })
}

/// Every route. Reads of pages and the tools need none, but the router knows the other methods of pages.
fn router(http: &Arc<Http>, telemetry: &RequestTelemetry) -> (Router, RouteNames) {
    let openapi = Representation::document(
        "application/json",
        openapi_document(&http.base_url, http.site.abuse_contact.as_ref()),
    );
    let (home, pages, help) = (site::editor::home(http), site::editor::pages(http), site::editor::help(http));
    let discovery = discovery::routes(&http.base_url, http.service.quotas(), &http.site, &telemetry.clock);
    let (api, described) = api(openapi::description()).split_for_parts();
    let (router, names) = NamedRoutes::of(api, described.paths.paths.into_keys())
        .merge(discovery)
        .merge(site::files())
        .route(metadata::path::OPENAPI, openapi.route())
        .route("/", home.route().post(site::form::post))
        .route("/pages", pages.route())
        .route(metadata::path::HELP, help.route())
        .route("/assets/{version}/{name}", get(site::editor::file))
        .route(PAGE, get(reads::absent))
        .route("/{slug}/edit", get(site::editor::edit))
        .into_parts();
    let router = router
        .fallback(site::not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(cors::preflights))
        .with_state(Arc::clone(http));
    (router, names)
}

/// The response to a method that the route does not take. Axum adds `Allow` from the routes.
async fn method_not_allowed(State(http): State<Arc<Http>>, route: MatchedPath, uri: Uri) -> Response {
    let is_of_pages = route.as_str().starts_with("/api/pages") || route.as_str().starts_with("/{slug}");
    if is_of_pages && shows_key(&uri) {
        return service_error_response(&ServiceError::KeyInQuery, &http.base_url);
    }
    error_response(ApiError::method_not_allowed())
}

/// The routes of the REST API, which add their descriptions to `document`.
fn api(document: OpenApi) -> OpenApiRouter<Arc<Http>> {
    OpenApiRouter::with_openapi(document)
        .routes(routes!(pages::create))
        .routes(routes!(pages::read, pages::update, pages::delete))
        .routes(routes!(token::token))
}
