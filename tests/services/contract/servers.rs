//! The servers that `./tests/run` starts and names in the environment. Without one, every test that needs it fails.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use handbill::backends::cql::{CqlStore, CqlTimeouts, migrate};
use handbill::backends::redis::{Redis, TimeLimits};
use handbill::config::{CqlSettings, RedisSettings};
use handbill::ports::clock::SystemClock;
use handbill::ports::random::{Random, index_below};
use handbill::telemetry::metrics::Metrics;
use tokio::sync::OnceCell;

/// Enough time on any machine, so that a test fails only by its own subject.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    scylla: CqlSettings,
    #[command(flatten)]
    redis: RedisSettings,
}

fn named_by(variable: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "this is where the tests' own setting is read")]
    let value = std::env::var(variable);
    value.unwrap_or_else(|_| panic!("{variable} is not set: run ./tests/run, which starts the servers"))
}

/// A store on the CQL server, in a keyspace that only this run uses.
pub(crate) async fn cql() -> CqlStore {
    static KEYSPACE: OnceCell<String> = OnceCell::const_new();
    let settings = |keyspace: &str| {
        let nodes = named_by("HANDBILL_TEST_CQL");
        let copies = nodes.split(',').count().min(3).to_string();
        let server = ["handbill", "--scylla-nodes", &nodes, "--scylla-replication-factor", &copies];
        Line::try_parse_from([&server[..], &["--scylla-keyspace", keyspace]].concat()).unwrap().scylla
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
    let url = named_by("HANDBILL_TEST_REDIS");
    let settings = Line::try_parse_from(["handbill", "--redis-url", &url]).unwrap().redis;
    let limits = TimeLimits {
        first_try: TEST_TIMEOUT,
        second_try: TEST_TIMEOUT,
        connect: TEST_TIMEOUT,
        probe_interval: TEST_TIMEOUT,
    };
    let clock = Arc::new(SystemClock::new());
    Redis::open(&settings, limits, clock, Random::System, Arc::new(Metrics::new())).unwrap()
}
