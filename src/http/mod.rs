//! HTTP: every route and every layer, in order.

mod coding;
mod described;
mod discovery;
mod edge;
mod error;
mod etag;
mod extract;
mod fast_path;
pub mod middleware;
mod pages;
mod prepared;
mod revalidation;
mod robots;
mod routes;
pub mod site;
mod state;
mod static_response;
mod token;
mod views;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;

use self::discovery::openapi;
pub use self::fast_path::ReadyCalls;
use self::fast_path::{FastPath, answer_if_ready};
use self::middleware::forwarded_warning::ForwardedWarning;
use self::middleware::{answer_budget, cors, forwarded_warning, render_errors, request_checks, security_headers};
pub use self::state::{Http, SiteSettings};
use self::static_response::StaticResponse;
use crate::api::error::ApiError;
use crate::api::metadata;
use crate::domain::contact::Contact;
use crate::domain::origin::Origin;
use crate::server::App;
use crate::telemetry::http::{ReadyReads, RequestTelemetry, observe};

/// The OpenAPI document of a service at `base_url`, as JSON. `contact` is whom readers tell about a page.
pub fn openapi_document(base_url: &Origin, contact: Option<&Contact>) -> String {
    openapi::document(routes::api(openapi::description()).into_openapi(), base_url, contact)
}

/// Every route with every layer. The routes of `mcp` are already behind [`guarded`], and `calls` are those that need
/// none of them.
///
/// A request passes the layers from the last to the first: telemetry, security headers, CORS, the checks of its head,
/// the memory for its response; then comes the route. `render_errors` is outside all of them. Reads of pages and
/// calls of tools that are ready may be answered before all of this (`fast_path`).
pub fn router(http: Http, (mcp, calls): (Router, ReadyCalls), telemetry: RequestTelemetry) -> Public {
    let openapi =
        StaticResponse::new("application/json", openapi_document(&http.base_url, http.site.abuse_contact.as_ref()));
    let (home, help) = (site::editor::home(&http), site::editor::help(&http));
    let discovery = discovery::routes(&http.base_url, http.service.quotas(), &http.site, &telemetry.clock);
    let service_desc = render_errors::service_desc(&http.base_url);
    let warning = ForwardedWarning::new(http.proxies.clone(), telemetry.clone());
    let http = Arc::new(http);
    let fast_path = Arc::new(FastPath {
        calls,
        http: Arc::clone(&http),
        warning: Arc::clone(&warning),
        reads: ReadyReads::new(telemetry.clone()),
        service_desc: service_desc.clone(),
    });
    let (api, _) = routes::api(openapi::description()).split_for_parts();
    let rest = api
        .merge(discovery)
        .route(metadata::path::OPENAPI, openapi.route())
        .route("/", home.route().post(site::form::post))
        .route(metadata::path::HELP, help.route())
        .route("/robots.txt", get(site::robots_txt))
        .route("/favicon.ico", get(site::favicon))
        .route("/assets/{version}/{name}", get(site::editor::file))
        .route("/{slug}", get(site::page))
        .route("/{slug}/edit", get(site::editor::edit))
        .fallback(site::not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(http);
    // The MCP server has its own CORS rules, so `mcp` is added outside this layer.
    let routes = guarded(rest)
        .layer(cors::layer())
        .merge(mcp)
        .layer(from_fn(security_headers::secure))
        .layer(from_fn_with_state(warning, forwarded_warning::warn))
        .layer(from_fn_with_state(telemetry, observe));
    // Routing adds `Allow` to a response, so only a layer outside the router can read it.
    let public =
        Router::new().fallback_service(routes).layer(from_fn_with_state(service_desc, render_errors::render_errors));
    Public { router: public, fast_path }
}

/// The public service.
pub struct Public {
    router: Router,
    fast_path: Arc<FastPath>,
}

impl Public {
    /// The service behind a listener.
    pub fn app(self) -> App {
        let Self { router, fast_path } = self;
        App::new(router, fast_path)
    }

    /// The service as a router, for callers without a listener.
    pub fn router(self) -> Router {
        self.router.layer(from_fn_with_state(self.fast_path, answer_if_ready))
    }
}

/// `routes` behind the checks that every request must pass: size of the head, memory for the response.
/// A panic in a route becomes a 500. CORS layers belong outside, so that scripts in browsers can read the refusals too.
pub fn guarded(routes: Router) -> Router {
    routes
        .layer(CatchPanicLayer::custom(error::internal_error))
        .layer(from_fn(answer_budget::reserve_answer))
        .layer(from_fn(request_checks::check_size))
}

/// The response to a method that the route does not take. Axum adds `Allow` from the routes.
async fn method_not_allowed() -> Response {
    error::error_response(ApiError::method_not_allowed())
}
