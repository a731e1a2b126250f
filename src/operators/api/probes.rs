//! Liveness, readiness and metrics. The public must not reach them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;

use crate::server::drain::Readiness;
use crate::telemetry::metrics::{EXPOSITION_TYPE, Metrics};

/// The state that the routes report.
#[derive(Clone)]
pub struct Probes {
    pub metrics: Arc<Metrics>,
    /// Which components are not ready.
    pub readiness: Arc<Readiness>,
}

#[derive(Serialize)]
struct ReadyBody {
    ready: bool,
    /// Why the process is not ready, by component.
    missing: std::collections::BTreeMap<&'static str, String>,
}

/// The routes, which need no token.
pub fn router(probes: Probes) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(probes)
}

/// Never asks a backend, since an outage of one must not restart every replica.
async fn livez() -> &'static str {
    "alive\n"
}

async fn readyz(State(probes): State<Probes>) -> Response {
    let missing = probes.readiness.missing();
    let ready = missing.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadyBody { ready, missing })).into_response()
}

async fn metrics(State(probes): State<Probes>) -> Response {
    ([(CONTENT_TYPE, EXPOSITION_TYPE)], probes.metrics.exposition()).into_response()
}
