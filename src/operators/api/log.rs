//! Which events are logged, changed while the process runs.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;

use super::refusal::{OperatorsRefusal, parse};
use super::state::OperatorsApi;
use super::types::LogBody;

pub(super) async fn show(State(api): State<Arc<OperatorsApi>>) -> Json<LogBody> {
    Json(LogBody { filter: api.log.current() })
}

/// `PUT /log`. The change lasts until the process ends.
pub(super) async fn change(
    State(api): State<Arc<OperatorsApi>>,
    body: Bytes,
) -> Result<Json<LogBody>, OperatorsRefusal> {
    let LogBody { filter } = parse(&body)?;
    let changed = api.log.change(&filter);
    api.count("log", if changed.is_ok() { "done" } else { "failed" });
    changed.map_err(|error| OperatorsRefusal::invalid(format!("The filter is not valid: {error}.")))?;
    tracing::info!(filter, "an operator changed the filter of the log");
    Ok(Json(LogBody { filter: api.log.current() }))
}
