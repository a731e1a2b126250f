//! Limits that replicas share, on every kind of Redis.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use handbill_core::domain::client::Client;
use handbill_core::domain::network_limits::windows;
use handbill_core::domain::quota::Quota;
use handbill_core::ports::clock::SystemClock;
use handbill_core::ports::random::{Random, hex_id};
use handbill_core::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use handbill_rate_limit::memory::MemoryRateLimiter;
use handbill_rate_limit::{RedisLimiter, RedisSettings};
use prometheus_client::metrics::gauge::Gauge;
use redis::AsyncCommands;

use super::servers::{ALL, OwnServer, PATIENT, Replica, USUAL, client, connect, to};

const HOUR: Duration = Duration::from_hours(1);
const TEN: Quota = Quota { limit: 10, window: HOUR };

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_100_attempts_at_once_over_4_replicas_exactly_the_limit_is_admitted() {
    for servers in ALL {
        let replicas: Vec<Arc<Replica>> =
            (0..4).map(|_| Arc::new(Replica::start(&servers.settings(), PATIENT))).collect();
        let client = client();
        let attempts = (0..100).map(|attempt| {
            let replica = replicas[attempt % 4].clone();
            tokio::spawn(
                async move { replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await.admitted },
            )
        });
        let admitted = join_all(attempts).await.into_iter().filter(|admitted| *admitted.as_ref().unwrap()).count();
        assert_eq!(admitted, 10, "{servers:?}");
        assert!(replicas.iter().all(|replica| !replica.decided_alone()), "{servers:?} decided");
    }
}

#[tokio::test]
async fn a_replica_reports_attempts_that_another_counted() {
    for servers in ALL {
        let (one, other) = (Replica::start(&servers.settings(), PATIENT), Replica::start(&servers.settings(), PATIENT));
        let client = client();
        for left in (0..10).rev() {
            let replica = if left % 2 == 0 { &one } else { &other };
            let decision = replica.limiter.check(Attempt::new(LimitKind::Edit, TEN, client)).await;
            assert_eq!((decision.admitted, decision.remaining, decision.quota), (true, left, TEN), "{servers:?}");
        }
        let refused = one.limiter.check(Attempt::new(LimitKind::Edit, TEN, client)).await;
        assert_eq!((refused.admitted, refused.remaining), (false, 0), "{servers:?}");
        assert!((3500..=3600).contains(&refused.retry_after_seconds()), "{servers:?}");
        assert!(
            one.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await.admitted,
            "{servers:?}: limits are apart"
        );
        assert!(
            one.limiter.check(Attempt::new(LimitKind::Edit, TEN, super::servers::client())).await.admitted,
            "{servers:?}: clients are apart"
        );
    }
}

#[tokio::test]
async fn a_window_that_has_passed_leaves_nothing_in_redis() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let quota = Quota { limit: 5, window: Duration::from_millis(5) };
    for _ in 0..5 {
        replica.limiter.check(Attempt::new(LimitKind::Create, quota, client())).await;
    }
    let mut connection = connect(&server.address()).await;
    // The window passes meanwhile, so this loop ends.
    while redis::cmd("DBSIZE").query_async::<u32>(&mut connection).await.unwrap() > 0 {}
}

#[tokio::test]
async fn keys_name_the_limit_and_the_client_and_nothing_else_is_kept() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let client = Client::from("192.0.2.7".parse::<std::net::IpAddr>().unwrap());
    replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await;
    let keys: Vec<String> = connect(&server.address()).await.keys("*").await.unwrap();
    assert_eq!(keys, ["handbill:limit:{create:192.0.2.7/32}"]);
}

#[tokio::test]
async fn a_redis_that_has_forgotten_the_script_is_told_it_again() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let client = client();
    replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await;
    let mut connection = connect(&server.address()).await;
    redis::cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut connection).await.unwrap();
    assert_eq!(replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await.remaining, 8);
    assert!(!replica.decided_alone());
}

#[tokio::test]
async fn a_connection_that_was_cut_is_made_again_within_the_same_decision() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let client = client();
    replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await;
    let mut connection = connect(&server.address()).await;
    redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
        .query_async::<u32>(&mut connection)
        .await
        .unwrap();
    assert_eq!(replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await.remaining, 8);
    assert!(!replica.decided_alone());
}

#[tokio::test]
async fn a_shared_server_answers_within_the_limits_that_the_service_has() {
    // The limits must not reject a healthy server. On a slow machine the replica may decide a few attempts alone.
    for servers in ALL {
        let replica = Replica::start(&servers.settings(), USUAL);
        let client = client();
        for _ in 0..20 {
            replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await;
        }
        assert!(!replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await.admitted, "{servers:?}");
    }
}

#[tokio::test]
async fn a_network_is_limited_across_its_clients_and_replicas_as_in_one_process() {
    for servers in ALL {
        let replicas = [0, 1].map(|_| {
            let settings = RedisSettings { timeout: PATIENT, ..servers.settings() };
            let clock = Arc::new(SystemClock::new());
            RedisLimiter::open(&settings, 1 << 20, clock, Random::System, Gauge::default()).unwrap()
        });
        let alone = MemoryRateLimiter::new(Arc::new(SystemClock::new()));
        // A /48 of its own, so that no other test counts in it.
        let site =
            u128::from(hex_id(&Random::System).bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte)));
        let client = |subnet: u128| {
            Client::from(IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) | (site << 80) | (subnet << 64))))
        };
        let quota = Quota { limit: 2, window: Duration::from_hours(1) };
        for (number, subnet) in [0, 0, 0, 1, 1, 1, 0x100, 0x100, 0x200, 0x300].into_iter().enumerate() {
            let attempt = Attempt::within(LimitKind::Create, windows(&[], quota, client(subnet))).unwrap();
            let shared = replicas[number % 2].check(attempt.clone()).await;
            let expected = alone.check(attempt).await;
            assert_eq!(
                (shared.admitted, shared.remaining),
                (expected.admitted, expected.remaining),
                "{servers:?} {number}"
            );
            assert_eq!(shared.quota, quota);
        }
    }
}

#[tokio::test]
async fn a_full_redis_takes_no_window_and_the_replica_decides_alone() {
    let server = OwnServer::start();
    let mut connection = connect(&server.address()).await;
    let () = redis::cmd("CONFIG")
        .arg("SET")
        .arg("maxmemory-policy")
        .arg("noeviction")
        .query_async(&mut connection)
        .await
        .unwrap();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client())).await;
    let used = |info: String| -> u64 {
        info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().parse().unwrap()
    };
    let info = redis::cmd("INFO").arg("memory").query_async::<String>(&mut connection).await.unwrap();
    let limit = used(info) + 256 * 1024;
    let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(limit).query_async(&mut connection).await.unwrap();
    while !replica.decided_alone() {
        assert!(replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client())).await.admitted);
    }
    assert!(replica.limiter.check(Attempt::new(LimitKind::Create, TEN, client())).await.admitted);
    let after = redis::cmd("INFO").arg("memory").query_async::<String>(&mut connection).await.unwrap();
    // The last window that fitted, and what the connections of this test use, come on top.
    assert!(used(after) < limit + 128 * 1024, "the windows stay within maxmemory");
}
