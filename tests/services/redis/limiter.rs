//! Limits that replicas share, on every kind of Redis.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use handbill::backends::redis::TimeLimits;
use handbill::domain::client::Client;
use handbill::domain::quota::Quota;
use handbill::ports::rate_limiter::{LimitKind, RateLimiter};
use redis::AsyncCommands;

use super::servers::{ALL, OwnServer, PATIENT, Replica, client, connect, to};

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
            tokio::spawn(async move { replica.limiter.check(LimitKind::Create, TEN, client).await.admitted })
        });
        let admitted = join_all(attempts).await.into_iter().filter(|admitted| *admitted.as_ref().unwrap()).count();
        assert_eq!(admitted, 10, "{servers:?}");
        assert!(replicas.iter().all(|replica| replica.decided_alone() == 0), "{servers:?} decided");
    }
}

#[tokio::test]
async fn what_one_replica_counted_the_other_tells() {
    for servers in ALL {
        let (one, other) = (Replica::start(&servers.settings(), PATIENT), Replica::start(&servers.settings(), PATIENT));
        let client = client();
        for left in (0..10).rev() {
            let replica = if left % 2 == 0 { &one } else { &other };
            let decision = replica.limiter.check(LimitKind::Edit, TEN, client).await;
            assert_eq!((decision.admitted, decision.remaining, decision.quota), (true, left, TEN), "{servers:?}");
        }
        let refused = one.limiter.check(LimitKind::Edit, TEN, client).await;
        assert_eq!((refused.admitted, refused.remaining), (false, 0), "{servers:?}");
        assert!((3500..=3600).contains(&refused.retry_after_seconds()), "{servers:?}");
        assert!(one.limiter.check(LimitKind::Create, TEN, client).await.admitted, "{servers:?}: limits are apart");
        assert!(
            one.limiter.check(LimitKind::Edit, TEN, super::servers::client()).await.admitted,
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
        replica.limiter.check(LimitKind::Create, quota, client()).await;
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
    replica.limiter.check(LimitKind::Create, TEN, client).await;
    let keys: Vec<String> = connect(&server.address()).await.keys("*").await.unwrap();
    assert_eq!(keys, ["handbill:limit:{create:192.0.2.7}"]);
}

#[tokio::test]
async fn a_redis_that_has_forgotten_the_script_is_told_it_again() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let client = client();
    replica.limiter.check(LimitKind::Create, TEN, client).await;
    let mut connection = connect(&server.address()).await;
    redis::cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut connection).await.unwrap();
    assert_eq!(replica.limiter.check(LimitKind::Create, TEN, client).await.remaining, 8);
    assert_eq!(replica.decided_alone(), 0);
}

#[tokio::test]
async fn a_connection_that_was_cut_is_made_again_within_the_same_decision() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let client = client();
    replica.limiter.check(LimitKind::Create, TEN, client).await;
    let mut connection = connect(&server.address()).await;
    redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
        .query_async::<u32>(&mut connection)
        .await
        .unwrap();
    assert_eq!(replica.limiter.check(LimitKind::Create, TEN, client).await.remaining, 8);
    assert_eq!(replica.decided_alone(), 0);
}

#[tokio::test]
async fn a_shared_server_answers_within_the_limits_that_the_service_has() {
    // The limits must not reject a healthy server. On a slow machine the replica may decide a few attempts alone.
    for servers in ALL {
        let replica = Replica::start(&servers.settings(), TimeLimits::default());
        let client = client();
        for _ in 0..20 {
            replica.limiter.check(LimitKind::Create, TEN, client).await;
        }
        assert!(!replica.limiter.check(LimitKind::Create, TEN, client).await.admitted, "{servers:?}");
    }
}
