//! The same operations for agents: Model Context Protocol over Streamable HTTP (spec §4.6; contract, decision 15).
//!
//! It serves clients of the 2026-07-28 revision, which describe themselves in every request, and clients of earlier
//! revisions, which begin with `initialize`. It keeps no session, so any replica can answer any request. Every answer is
//! one JSON object; there is no event stream.

mod arguments;
mod error;
mod fast_path;
mod finished;
mod handler;
mod host_check;
mod message;
mod revision;
mod tool_calls;
mod tool_result;
mod tools;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::post;
use futures_util::FutureExt;
use http::header::{ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tower::{Layer, ServiceExt, service_fn};
use tower_http::cors::{AllowOrigin, CorsLayer};

use self::error::method_not_allowed;
pub use self::fast_path::FastPath;
use self::handler::Server;
pub use self::host_check::HostCheck;
pub use self::tool_calls::Mcp;
use crate::api::metadata;

/// How long a browser may remember the answer to a preflight request.
const PREFLIGHT_AGE: Duration = Duration::from_hours(24);

/// The route to the tools, for the hosts and origins in `allowed`, and the path of calls that need no route.
///
/// A request from another host or origin is refused first. Every other answer gets its CORS headers. Then come the
/// layers of `guard`, which every route of the service has, and the handler.
pub fn router(mcp: Mcp, allowed: HostCheck, guard: fn(Router) -> Router) -> (Router, FastPath) {
    let (allowed, server) = (Arc::new(allowed), Arc::new(Server::new(mcp)));
    let fields = fields_without_origin(Arc::clone(&allowed));
    let fast_path = FastPath { server: Arc::clone(&server), allowed: Arc::clone(&allowed), fields };
    let method = post(handler::handle).fallback(method_not_allowed).with_state(server);
    let routes = guard(Router::new().route(metadata::path::MCP, method))
        .layer(map_response(no_store))
        .layer(cors(Arc::clone(&allowed)))
        .layer(from_fn_with_state(allowed, host_check::check));
    (routes, fast_path)
}

/// Marks every answer `no-store`, since any of them may show an edit key.
async fn no_store(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The header fields that the layers set on an answer to a request without `Origin`.
fn fields_without_origin(allowed: Arc<HostCheck>) -> HeaderMap {
    let empty = service_fn(async |_: Request| Ok::<_, Infallible>(no_store(Response::default()).await));
    let answering = cors(allowed).layer(empty).oneshot(Request::default());
    let Ok(answer) = answering.now_or_never().expect("no layer waits for anything");
    answer.headers().clone()
}

/// Lets pages of the allowed origins call the tools, with the headers of the protocol and without credentials.
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
