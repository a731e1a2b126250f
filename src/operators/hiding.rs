//! Takes down hidden pages whose time is over, for a store that only this process uses. In a cluster `handbill sweep` does it.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use handbill_core::domain::slug::Slug;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::page_store::StoreError;
use handbill_core::service::{ActOutcome, Operators, ServiceError};

/// How often to look. Pages are hidden for days, and a look reads one small table.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

/// Takes down again and again what `over` names: pages that are hidden until that time at the latest.
pub async fn follow(
    over: impl AsyncFn(UnixMillis) -> Result<Vec<Slug>, StoreError>,
    operators: Operators,
    clock: SharedClock,
) {
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if let Err(error) = take_down(&over, &operators, clock.now()).await {
            tracing::warn!(%error, "a hidden page whose time is over is still there: it is tried again in a minute");
        }
    }
}

/// Takes down what `over` names at `now`. After an error the rest is left for the next time.
pub async fn take_down(
    over: &impl AsyncFn(UnixMillis) -> Result<Vec<Slug>, StoreError>,
    operators: &Operators,
    now: UnixMillis,
) -> Result<(), ServiceError> {
    for slug in over(now).await? {
        if let ActOutcome::Done(..) = operators.end_hiding(&slug, now).await? {
            tracing::info!(slug = slug.as_str(), "a hidden page was taken down, because its time was over");
        }
    }
    Ok(())
}
