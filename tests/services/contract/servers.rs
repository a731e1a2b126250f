//! The servers that `./tests/run` starts and names in the environment. Without one, every test that needs it fails.

use std::sync::Arc;

use handbill::settings::RedisSettings;
use handbill_pages::ports::clock::SystemClock;
use handbill_pages::ports::random::Random;
use handbill_rate_limit::RedisLimiter;
use handbill_store_scylla::{ScyllaSettings, ScyllaStore};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::OnceCell;

use crate::environment::{self, TEST_TIMEOUT, from_the_runner};
use crate::scylla::server::{connected, migrated_settings};

/// A store on the server of this run, in a keyspace that only this run uses.
pub(crate) async fn scylla() -> ScyllaStore {
    static SETTINGS: OnceCell<ScyllaSettings> = OnceCell::const_new();
    connected(SETTINGS.get_or_init(migrated_settings).await).await
}

pub(crate) async fn empty_scylla() -> ScyllaStore {
    connected(&migrated_settings().await).await
}

pub(crate) fn redis() -> RedisLimiter {
    let url = from_the_runner("HANDBILL_TEST_REDIS");
    let settings = environment::settings::<RedisSettings>(&["--redis-url", &url]).limiter();
    let settings = handbill_rate_limit::RedisSettings { timeout: TEST_TIMEOUT, ..settings };
    let clock = Arc::new(SystemClock::new());
    RedisLimiter::open(&settings, 1 << 20, clock, Random::System, Gauge::default()).unwrap()
}
