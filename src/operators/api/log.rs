//! Which events are logged, changed while the process runs.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use tracing::Level;

use super::refusal::{OperatorsRefusal, operator, parse};
use super::state::OperatorsApi;
use super::types::{LogBody, LogChange};
use crate::telemetry::logs::LogFilter;
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
    let invalid = |error| OperatorsRefusal::invalid(format!("The filter is not valid: {error}."));
    let parsed = LogFilter::parse(&filter);
    api.count("log", if parsed.is_ok() { "done" } else { "failed" });
    let parsed = parsed.map_err(invalid)?;
    // A log that shows more may be needed because the store, and with it the audit, cannot be written.
    api.note(&by, AuditAction::Log).await;
    let tell = || tracing::info!(filter, by, "an operator changed the filter of the log");
    // Whichever of both filters shows it: one that shows less must not hide its own change.
    let was_told = tracing::enabled!(Level::INFO);
    if was_told {
        tell();
    }
    api.log.change(parsed).map_err(invalid)?;
    if !was_told {
        tell();
    }
    Ok(Json(LogBody { filter: api.log.current() }))
}
