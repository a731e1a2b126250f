//! Pauses and resumes creates, by a switch beside the pages that every replica watches.

use std::{sync::Arc, time::Duration};

use axum::{Json, body::Bytes, extract::State};
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};

use super::api::{AdminApi, Refusal, operator, parse};
use crate::telemetry::metrics::Metrics;
use handbill_pages::ports::page_store::CreatesSwitch;
use handbill_pages::ports::page_store::{NotReachedError, StoreError};
use handbill_pages::service::PublishingPolicy;

const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatesChange {
    pub paused: bool,
    pub by: String,
}

pub(super) async fn change(State(api): State<Arc<AdminApi>>, body: Bytes) -> Result<Json<()>, Refusal> {
    let CreatesChange { paused, by } = parse(&body)?;
    let by = operator(&by)?;
    let changed = api.store.set_paused(paused).await;
    if changed.is_ok() {
        api.policy.set_paused(paused);
    }
    let action = if paused { "pause" } else { "resume" };
    let outcome = if changed.is_ok() { "done" } else { "failed" };
    api.log_act(action, None, None, by, outcome).await;
    changed?;
    Ok(Json(()))
}

/// Follows the switch. After an error the last value stays.
pub async fn follow(switch: Arc<dyn CreatesSwitch>, policy: PublishingPolicy, metrics: Arc<Metrics>) {
    let mut looks = interval(INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_failed = false;
    loop {
        looks.tick().await;
        let read = read(&*switch, &policy, &metrics).await;
        // `/readyz` and the log report this already.
        let failure = read
            .err()
            .filter(|error| !matches!(error, StoreError::Unavailable(cause) if cause.is::<NotReachedError>()));
        if let Some(error) = failure.as_ref().filter(|_| !has_failed) {
            tracing::error!(
                error = error.causes(),
                "cannot read whether creates are paused: what was read last stays in force"
            );
        }
        has_failed = failure.is_some();
    }
}

/// No page is created before this has succeeded.
pub async fn read(switch: &dyn CreatesSwitch, policy: &PublishingPolicy, metrics: &Metrics) -> Result<(), StoreError> {
    let paused = switch.paused().await?;
    if policy.set_paused(paused) {
        tracing::info!(paused, "operators changed whether pages may be created");
    }
    metrics.paused.set(i64::from(paused));
    Ok(())
}
