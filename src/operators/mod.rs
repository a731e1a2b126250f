//! The operators' API, on the operators' listener: taking pages down, looking at them, the audit, and the log's level.
//!
//! Whoever reaches the listener may read metrics and probes. Everything here also needs the token of `--admin-token-file`
//! (see [`guard`]). `handbill takedown`, `inspect` and `audit` are clients of these routes.

mod audit;
pub mod guard;
mod log;
mod pages;
pub mod records;
mod refusal;
pub mod types;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use tokio::runtime::Handle;

use self::guard::TokenFile;
use self::refusal::Refusal;
use crate::ports::page_scan::PageScan;
use crate::service::Operators;
use crate::telemetry::logs::LogFilter;
use crate::telemetry::metrics::{Metrics, OperatorLabels};

/// Size limit of a request's body, in bytes: a thousand slugs fit many times.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// The state that the operators' routes work on.
pub struct OperatorsApi {
    /// The operators' side of the service.
    pub operators: Operators,
    /// Every record of the store.
    pub records: Arc<dyn PageScan>,
    /// The filter of the log.
    pub log: LogFilter,
    /// Counts what operators do.
    pub metrics: Arc<Metrics>,
}

impl OperatorsApi {
    /// Counts that an operator's `action` ended with `outcome`.
    fn count(&self, action: &'static str, outcome: &'static str) {
        self.metrics.operator_actions.get_or_create(&OperatorLabels { action, outcome }).inc();
    }
}

/// The operators' routes behind the token of `token_file`. The work is done in `runtime`, because the operators' listener
/// has only one thread, which must stay free for probes.
pub fn router(api: OperatorsApi, token_file: TokenFile, runtime: Handle) -> Router {
    Router::new()
        .route("/takedown", post(pages::take_down))
        .route("/inspect/{slug}", get(pages::inspect))
        .route("/audit", get(audit::list))
        .route("/records", get(records::list))
        .route("/log", get(log::show).put(log::change))
        .method_not_allowed_fallback(refusal::method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(runtime, run_elsewhere))
        .layer(from_fn_with_state(token_file, guard::check))
        .with_state(Arc::new(api))
}

/// Answers `request` in another runtime than the listener's.
async fn run_elsewhere(State(runtime): State<Handle>, request: Request, next: Next) -> Result<Response, Refusal> {
    runtime.spawn(next.run(request)).await.map_err(|_| Refusal::internal())
}
