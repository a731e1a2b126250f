//! Which events are logged, changed while the process runs.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;

use super::refusal::{OperatorsRefusal, operator, parse};
use super::state::OperatorsApi;
use super::types::{LogBody, LogChange};
use handbill_core::domain::audit::AuditAction;

pub(super) async fn show(State(api): State<Arc<OperatorsApi>>) -> Json<LogBody> {
    Json(LogBody { filter: api.log.current() })
}

/// `PUT /log`. The change lasts until the process ends.
pub(super) async fn change(
    State(api): State<Arc<OperatorsApi>>,
    body: Bytes,
) -> Result<Json<LogBody>, OperatorsRefusal> {
    let LogChange { filter, by } = parse(&body)?;
    let by = operator(&by)?;
    let changed = api.log.change(&filter);
    api.count("log", if changed.is_ok() { "done" } else { "failed" });
    changed.map_err(|error| OperatorsRefusal::invalid(format!("The filter is not valid: {error}.")))?;
    // A log that shows more may be needed because the store, and with it the audit, cannot be written.
    api.note(&by, AuditAction::Log).await;
    tracing::info!(filter, by, "an operator changed the filter of the log");
    Ok(Json(LogBody { filter: api.log.current() }))
}
