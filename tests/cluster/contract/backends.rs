//! The backends on servers, which `./tests/run` starts and names in the environment. A new one is a new row.

use std::sync::Arc;

use handbill::settings::RedisSettings;
use handbill_pages::ports::clock::SystemClock;
use handbill_pages::ports::operated_store::OperatedStore;
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::RateLimiter;
use handbill_rate_limit::RedisLimiter;
use handbill_store_scylla::{ScyllaSettings, ScyllaStore};
use handbill_test_support::environment::{self, TEST_TIMEOUT, from_the_runner};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::OnceCell;

use super::rules::Started;
use crate::scylla::server::{connected, migrated_settings};

/// Every store, each without any page that the test knows of.
pub(crate) async fn stores() -> Vec<Started<dyn OperatedStore>> {
    static SETTINGS: OnceCell<ScyllaSettings> = OnceCell::const_new();
    vec![started(connected(SETTINGS.get_or_init(migrated_settings).await).await)]
}

pub(crate) async fn empty_stores() -> Vec<Started<dyn OperatedStore>> {
    vec![started(connected(&migrated_settings().await).await)]
}

fn started(store: ScyllaStore) -> Started<dyn OperatedStore> {
    Started { name: "scylla", backend: Arc::new(store), _beside: Box::new(()) }
}

/// Every limiter and its name. No test controls the clock of Redis, so `redis::window` moves the counted
/// attempts instead, and shows that these windows slide as those in memory do.
pub(crate) fn limiters_by_any_clock() -> Vec<(&'static str, Arc<dyn RateLimiter>)> {
    let url = from_the_runner("HANDBILL_TEST_REDIS");
    let settings = environment::settings::<RedisSettings>(&["--redis-url", &url]).limiter();
    let settings = handbill_rate_limit::RedisSettings { timeout: TEST_TIMEOUT, ..settings };
    let clock = Arc::new(SystemClock::new());
    let limiter = RedisLimiter::open(&settings, 1 << 20, clock, Random::System, Gauge::default()).unwrap();
    vec![("Redis", Arc::new(limiter))]
}
