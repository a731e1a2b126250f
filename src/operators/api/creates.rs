//! Pausing creates, and the budget that all clients share.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;

use super::refusal::{OperatorsRefusal, operator, parse};
use super::state::OperatorsApi;
use super::types::CreatesChange;
use handbill_core::domain::audit::AuditAction;
use handbill_core::domain::creates::{Creates, MAX_HOURLY_BUDGET};
use handbill_core::ports::page_store::StoreError;

pub(super) async fn show(State(api): State<Arc<OperatorsApi>>) -> Result<Json<Creates>, OperatorsRefusal> {
    Ok(Json(api.switch.load().await?))
}

/// `PATCH /creates`. A field that is left out stays as it is.
pub(super) async fn change(
    State(api): State<Arc<OperatorsApi>>,
    body: Bytes,
) -> Result<Json<Creates>, OperatorsRefusal> {
    let change: CreatesChange = parse(&body)?;
    let by = operator(&change.by)?;
    let changed = apply(&api, &change, by).await;
    api.count("creates", if changed.is_ok() { "done" } else { "failed" });
    changed.map(Json)
}

async fn apply(api: &OperatorsApi, change: &CreatesChange, by: String) -> Result<Creates, OperatorsRefusal> {
    // A pause must not fail because somebody wrote the switch by hand and it makes no sense: it replaces that.
    let before = match api.switch.load().await {
        Err(StoreError::Unreadable(_)) => api.policy.creates(),
        before => before?,
    };
    let creates = Creates {
        paused: change.paused.unwrap_or(before.paused),
        hourly_budget: change.hourly_budget.unwrap_or(before.hourly_budget),
    };
    if !creates.is_valid() {
        let advice = format!("The field `hourly_budget` is between 1 and {MAX_HOURLY_BUDGET}, or null for any number.");
        return Err(OperatorsRefusal::invalid(advice));
    }
    // The audit comes first: a change that nobody can account for must not happen.
    let action = AuditAction::Creates { paused: creates.paused, hourly_budget: creates.hourly_budget };
    api.operators.record(by.clone(), action).await?;
    api.switch.save(creates).await?;
    api.policy.set_creates(creates);
    tracing::info!(paused = creates.paused, hourly_budget = creates.hourly_budget, by, "an operator changed creates");
    Ok(creates)
}
