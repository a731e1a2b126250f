//! The operators' API, on the operators' listener: it finds, inspects, takes down, hides and shows pages, pauses creates, and
//! gives out the records for an export and a copy for a backup. Each act is one line of the log (`OperatorsApi::log_act`).
//!
//! Whoever reaches the listener may read metrics and probes. Everything here also needs the token of
//! `--admin-token-file` (see [`Guard`]). The operators' commands are clients of these routes, or run them in their own
//! process over a cluster.

mod backup;
mod creates;
mod guard;
mod host_check;
mod pages;
pub mod probes;
pub mod records;
mod refusal;
mod state;
pub mod types;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use tokio::runtime::Handle;

pub use self::guard::{Guard, TokenError, TokenFile};
pub use self::host_check::for_hosts;
use self::refusal::OperatorsRefusal;
pub use self::state::OperatorsApi;

/// Size limit of a request's body, in bytes: a thousand slugs fit many times.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// The operators' routes behind `guard`. The work is done in `runtime`, because the operators'
/// listener has only one thread, which must stay free for probes.
pub fn router(api: OperatorsApi, guard: Guard, runtime: Handle) -> Router {
    routes(api)
        .route_layer(from_fn_with_state(runtime, run_elsewhere))
        .route_layer(from_fn_with_state(Arc::new(guard), guard::check))
}

/// The operators' routes for a caller that is the operator already, since it has the store itself.
pub fn routes(api: OperatorsApi) -> Router {
    Router::new()
        .route("/takedown", post(pages::take_down))
        .route("/hide", post(pages::hide))
        .route("/show", post(pages::show))
        .route("/inspect/{slug}", get(pages::inspect))
        .route("/records", get(records::list))
        .route("/backup", get(backup::copy))
        .route("/creates", get(creates::show).put(creates::change))
        .method_not_allowed_fallback(refusal::method_not_allowed)
        .route_layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(Arc::new(api))
}

/// Answers `request` in another runtime than the listener's.
async fn run_elsewhere(
    State(runtime): State<Handle>,
    request: Request,
    next: Next,
) -> Result<Response, OperatorsRefusal> {
    runtime.spawn(next.run(request)).await.map_err(|_| OperatorsRefusal::internal())
}
