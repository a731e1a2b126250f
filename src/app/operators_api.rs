//! Puts the operators' API together.

use std::sync::Arc;

use axum::Router;
use tokio::runtime::Handle;

use super::deps::Deps;
use crate::operators::guard::TokenFile;
use crate::operators::{self, OperatorsApi};
use crate::ports::audit_log::AuditLog;
use crate::ports::page_scan::PageScan;
use crate::ports::page_store::PageStore;
use crate::service::Operators;
use crate::telemetry::logs::LogFilter;

/// The operators' routes over `store`, which is the service's own with all that is in front of it. Their work is done in
/// the runtime of the caller.
pub fn operators_router(
    store: Arc<dyn PageStore>,
    audit: Arc<dyn AuditLog>,
    records: Arc<dyn PageScan>,
    log: LogFilter,
    token_file: TokenFile,
    deps: &Deps,
) -> Router {
    let Deps { clock, random, metrics } = deps;
    let operators = Operators::new(store, audit, Arc::clone(clock), random.clone());
    let api = OperatorsApi { operators, records, log, metrics: Arc::clone(metrics) };
    operators::router(api, token_file, Handle::current())
}
