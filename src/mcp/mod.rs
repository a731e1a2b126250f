//! The same operations for agents: Model Context Protocol over Streamable HTTP (spec §4.6; contract, decision 15).
//!
//! Stateless, for clients of the 2026-07-28 revision, which describe themselves in every request, and for those of the
//! revisions before, which open with `initialize`: no session anywhere, so any replica answers any request. `rmcp`
//! speaks the protocol; `mend` stands before it and gives the answers that it lacks.

mod arguments;
mod error;
mod handler;
mod host_check;
mod messages;
mod page_result;
mod rmcp_compat;
mod tool_calls;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::post_service;
use http::header::{ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tower_http::cors::{AllowOrigin, CorsLayer};

use self::handler::Server;
pub use self::host_check::HostCheck;
use crate::api::metadata;
use crate::api::request::MAX_BODY_BYTES;
use crate::api::request::client_addr::TrustedProxies;
use crate::domain::origin::Origin;
use crate::service::PageService;
use crate::telemetry::metrics::Metrics;

/// How long a browser may remember a preflight's answer.
const PREFLIGHT_AGE: Duration = Duration::from_hours(24);

/// What the tools need.
pub struct Mcp {
    /// The rules.
    pub service: PageService,
    /// The origin of every address that is given out.
    pub base_url: Origin,
    /// Whose word on a client's address is believed.
    pub proxies: TrustedProxies,
    /// Where calls are counted.
    pub metrics: Arc<Metrics>,
}

/// The route to the tools, for the hosts and origins in `allowed`.
///
/// A request is refused if its host or origin is another, gets its CORS headers whatever becomes of it, passes `guard`,
/// which every route of the service has, is mended, and reaches `rmcp`.
pub fn router(mcp: Mcp, allowed: HostCheck, guard: fn(Router) -> Router) -> Router {
    let server = Server::new(mcp);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // `mend` has read the body within this limit already.
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        // `allowed` decides, before preflights too and with answers in JSON.
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let rmcp = StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config);
    let allowed = Arc::new(allowed);
    let method = post_service(rmcp).route_layer(from_fn(rmcp_compat::correct)).fallback(error::method_not_allowed);
    guard(Router::new().route(metadata::path::MCP, method))
        .layer(map_response(no_store))
        .layer(cors(Arc::clone(&allowed)))
        .layer(from_fn_with_state(allowed, host_check::check))
}

/// Any answer may be the one that shows a key.
async fn no_store(mut answer: Response) -> Response {
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Pages of the allowed origins may call the tools, with the headers of the protocol and without credentials.
fn cors(allowed: Arc<HostCheck>) -> CorsLayer {
    let named = ["last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"];
    let headers = [ACCEPT, AUTHORIZATION, CONTENT_TYPE].into_iter().chain(named.map(HeaderName::from_static));
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, _| allowed.admits_origin(origin)))
        .allow_methods([Method::POST])
        .allow_headers(headers.collect::<Vec<_>>())
        .expose_headers([ALLOW, RETRY_AFTER, HeaderName::from_static("x-request-id")])
        .max_age(PREFLIGHT_AGE)
}
