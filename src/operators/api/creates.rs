//! Pausing creates.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;

use super::refusal::{OperatorsRefusal, operator, parse};
use super::state::{LoggedAct, OperatorsApi};
use super::types::{CreatesBody, CreatesChange};

pub(super) async fn show(State(api): State<Arc<OperatorsApi>>) -> Result<Json<CreatesBody>, OperatorsRefusal> {
    Ok(Json(CreatesBody { paused: api.switch.paused().await? }))
}

/// `PUT /creates`: pauses or resumes creates.
pub(super) async fn change(
    State(api): State<Arc<OperatorsApi>>,
    body: Bytes,
) -> Result<Json<CreatesBody>, OperatorsRefusal> {
    let CreatesChange { paused, by } = parse(&body)?;
    let by = operator(&by)?;
    let changed = api.switch.set_paused(paused).await;
    if changed.is_ok() {
        api.policy.set_paused(paused);
    }
    let action = if paused { "pause" } else { "resume" };
    let outcome = if changed.is_ok() { "done" } else { "failed" };
    api.log_act(&LoggedAct { action, slug: None, reason: None, by: &by, outcome });
    api.written().await;
    changed?;
    Ok(Json(CreatesBody { paused }))
}
