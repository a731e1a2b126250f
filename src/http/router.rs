//! Every route of the public service, in groups that have their layers.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Router, extract::State};
use http::{Method, Uri};
use tower_http::cors::CorsLayer;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::error::{ApiError, Interface};
use super::middleware::{Front, any_site, around};
use super::{
    discovery, document::Document, error_response::uri_holds_key, metadata, openapi, pages, reads, site,
    state::AppState, token,
};
use crate::settings::Contact;
use handbill_pages::values::origin::Origin;

/// As JSON.
pub fn openapi_document(base_url: &Origin, contact: Option<&Contact>) -> String {
    let document = OpenApiRouter::with_openapi(openapi::Description::openapi())
        .merge(of_creates())
        .merge(of_pages())
        .merge(of_tokens());
    openapi::document(document.into_openapi(), base_url, contact)
}

/// `tools` are the route of `/mcp`, for scripts that `tools_cors` admits.
pub fn front(app: Arc<AppState>, tools: MethodRouter, tools_cors: CorsLayer) -> Router {
    let front = Arc::new(Front::new(Arc::clone(&app)));
    let tokens: Router<_> = of_tokens().into();
    let tokens = tokens.method_not_allowed_fallback(not_allowed_for_tokens);
    let tools = Router::new().route(metadata::path::MCP, tools);
    around(of_the_site(&app), Interface::Site, any_site(), &front)
        .merge(around(of_the_api(&app), Interface::Api, any_site(), &front))
        .merge(around(tokens, Interface::Token, any_site(), &front))
        .with_state(app)
        .merge(around(tools, Interface::Tools, tools_cors, &front))
}

fn of_creates() -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::new().routes(routes!(pages::create))
}

fn of_pages() -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::new().routes(routes!(pages::read, pages::update, pages::delete))
}

fn of_tokens() -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::new().routes(routes!(token::token))
}

/// With the pages that lead to it.
fn of_the_api(app: &AppState) -> Router<Arc<AppState>> {
    let markdown = discovery::home_markdown(&app.base_url, app.service.quotas(), &app.site);
    let (creates, pages): (Router<_>, Router<_>) = (of_creates().into(), of_pages().into());
    Router::new()
        .route("/", site::home_route(app, markdown).post(site::form::post))
        .route(metadata::path::HELP, site::editor::help(app).route())
        .method_not_allowed_fallback(not_allowed)
        .merge(creates.method_not_allowed_fallback(not_allowed_without_a_key))
        .merge(pages.method_not_allowed_fallback(not_allowed_on_a_page))
}

fn of_the_site(app: &AppState) -> Router<Arc<AppState>> {
    let openapi = openapi_document(&app.base_url, app.site.abuse_contact.as_ref());
    let edit = Router::new().route("/{slug}/edit", get(site::editor::edit));
    discovery::routes(&app.base_url, app.service.quotas(), &app.site, &app.telemetry.clock)
        .merge(site::files())
        .route(metadata::path::OPENAPI, Document::new("application/json", openapi).route())
        .route("/pages", site::editor::pages(app).route())
        .route("/assets/{version}/{name}", get(site::editor::file))
        .method_not_allowed_fallback(not_allowed)
        .merge(Router::new().route("/{slug}", get(reads::page)).method_not_allowed_fallback(not_allowed_at_a_page))
        .merge(edit.method_not_allowed_fallback(not_allowed_without_a_key))
        .fallback(site::not_found)
}

/// Axum adds `Allow`.
async fn not_allowed(State(app): State<Arc<AppState>>, method: Method) -> ApiError {
    ApiError::method_not_allowed(&method, &app.base_url)
}

async fn not_allowed_for_tokens(State(app): State<Arc<AppState>>, method: Method) -> Response {
    ApiError::method_not_allowed(&method, &app.base_url).at(Interface::Token)
}

async fn not_allowed_without_a_key(app: State<Arc<AppState>>, method: Method, uri: Uri) -> Response {
    if uri_holds_key(&uri) { app.key_in_uri(&method) } else { not_allowed(app, method).await.into_response() }
}

async fn not_allowed_on_a_page(State(app): State<Arc<AppState>>, method: Method, uri: Uri) -> Response {
    if uri_holds_key(&uri) { app.key_in_uri(&method) } else { ApiError::not_on_a_page().into_response() }
}

async fn not_allowed_at_a_page(app: State<Arc<AppState>>, method: Method, uri: Uri) -> Response {
    // `curl -T` sends a file to a page that is not there yet.
    if method == Method::PUT || uri_holds_key(&uri) {
        return not_allowed_without_a_key(app, method, uri).await;
    }
    ApiError::not_at_the_page().into_response()
}
