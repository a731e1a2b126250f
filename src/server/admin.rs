//! The operators' listener: liveness, readiness and metrics. The public must not reach it.

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

/// The state that the operators' routes report.
#[derive(Clone)]
pub struct Admin {
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

pub fn router(admin: Admin) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(admin)
}

/// Never asks a backend, since an outage of one must not restart every replica.
async fn livez() -> &'static str {
    "alive\n"
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let missing = admin.readiness.missing();
    let ready = missing.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadyBody { ready, missing })).into_response()
}

async fn metrics(State(admin): State<Admin>) -> Response {
    ([(CONTENT_TYPE, EXPOSITION_TYPE)], admin.metrics.exposition()).into_response()
}
