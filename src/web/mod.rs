//! HTTP: the way in and out of the public service, and every route.

mod coding;
mod discovery;
mod error;
mod etag;
mod extract;
mod finish;
mod forwarded_warning;
mod front;
mod mcp_host;
mod named_routes;
mod pages;
mod preflight;
mod reads;
mod representation;
mod robots;
mod routes;
pub mod site;
mod state;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, State};
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::get;
use http::Uri;

use self::discovery::openapi;
use self::finish::Finish;
use self::forwarded_warning::ForwardedWarning;
pub use self::front::Front;
use self::front::Inner;
use self::mcp_host::McpHost;
use self::named_routes::{NamedRoutes, PAGE, RouteNames};
use self::representation::Representation;
pub use self::state::{Http, SiteSettings};
use crate::api::error::ApiError;
use crate::api::metadata;
use crate::mcp::Tools;
use crate::telemetry::http::RequestTelemetry;
use handbill_core::domain::contact::Contact;
use handbill_core::domain::origin::Origin;
use handbill_core::service::ServiceError;

/// The OpenAPI document of a service at `base_url`, as JSON. `contact` is whom readers tell about a page.
pub fn openapi_document(base_url: &Origin, contact: Option<&Contact>) -> String {
    openapi::document(routes::api(openapi::description()).into_openapi(), base_url, contact)
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
    let (api, described) = routes::api(openapi::description()).split_for_parts();
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
        .layer(from_fn(preflight::answer))
        .with_state(Arc::clone(http));
    (router, names)
}

/// The response to a method that the route does not take. Axum adds `Allow` from the routes.
async fn method_not_allowed(State(http): State<Arc<Http>>, route: MatchedPath, uri: Uri) -> Response {
    let is_of_pages = route.as_str().starts_with("/api/pages") || route.as_str().starts_with("/{slug}");
    if is_of_pages && error::shows_key(&uri) {
        return error::service_error_response(&ServiceError::KeyInQuery, &http.base_url);
    }
    error::error_response(ApiError::method_not_allowed())
}
