//! The servers that `./tests/run` starts and names in the environment. Without one, every test that needs it fails.

use std::sync::Arc;
use std::time::Duration;

use handbill::backends::cql::{CqlStore, CqlTimeouts, migrate};
use handbill::backends::redis::{Redis, TimeLimits};
use handbill::config::{CqlSettings, RedisSettings};
use handbill::ports::clock::SystemClock;
use handbill::ports::random::{Random, index_below};
use handbill::telemetry::metrics::Metrics;
use tokio::sync::OnceCell;

use crate::environment::{self, TEST_TIMEOUT, from_the_runner};

/// A store on the CQL server, in a keyspace that only this run uses.
pub(crate) async fn cql() -> CqlStore {
    static KEYSPACE: OnceCell<String> = OnceCell::const_new();
    let settings = |keyspace: &str| -> CqlSettings {
        let nodes = from_the_runner("HANDBILL_TEST_CQL");
        let copies = nodes.split(',').count().min(3).to_string();
        let server = ["--scylla-nodes", &nodes, "--scylla-replication-factor", &copies];
        environment::settings(&[&server[..], &["--scylla-keyspace", keyspace]].concat())
    };
    let keyspace = KEYSPACE.get_or_init(async || {
        let letters = (0..12).map(|_| char::from(b'a' + u8::try_from(index_below(&Random::System, 26)).unwrap()));
        let keyspace = format!("handbill_contract_{}", letters.collect::<String>());
        migrate(&settings(&keyspace), &Random::System).await.unwrap();
        keyspace
    });
    let settings = settings(keyspace.await);
    let limits = CqlTimeouts {
        operation: TEST_TIMEOUT,
        attempt: TEST_TIMEOUT,
        permit: TEST_TIMEOUT,
        in_flight: 256,
        refused_for: Duration::ZERO,
        ..CqlTimeouts::default()
    };
    CqlStore::connect(&settings, limits, Random::System, |_| {}).await.unwrap()
}

/// Access to the Redis server.
pub(crate) fn redis() -> Redis {
    let url = from_the_runner("HANDBILL_TEST_REDIS");
    let settings: RedisSettings = environment::settings(&["--redis-url", &url]);
    let limits = TimeLimits {
        first_try: TEST_TIMEOUT,
        second_try: TEST_TIMEOUT,
        connect: TEST_TIMEOUT,
        probe_interval: TEST_TIMEOUT,
    };
    let clock = Arc::new(SystemClock::new());
    Redis::open(&settings, limits, clock, Random::System, Arc::new(Metrics::new())).unwrap()
}
