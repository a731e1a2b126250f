//! Liveness, readiness and metrics. The public must not reach them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;

use crate::http::drain::Readiness;
use crate::telemetry::metrics::{Metrics, OPEN_METRICS_TYPE, TEXT_TYPE, as_text};

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

/// In OpenMetrics for those who name it, such as Prometheus, and for those who name nothing. Other tools read the older text.
async fn metrics(State(probes): State<Probes>, headers: HeaderMap) -> Response {
    let exposition = probes.metrics.exposition();
    let (open, _) = OPEN_METRICS_TYPE.split_once(';').unwrap_or((OPEN_METRICS_TYPE, ""));
    let names_it = |line: &HeaderValue| line.to_str().is_ok_and(|line| line.contains(open));
    let mut accepted = headers.get_all(ACCEPT).iter().peekable();
    if accepted.peek().is_none() || accepted.any(names_it) {
        ([(CONTENT_TYPE, OPEN_METRICS_TYPE)], exposition).into_response()
    } else {
        ([(CONTENT_TYPE, TEXT_TYPE)], as_text(&exposition)).into_response()
    }
}
