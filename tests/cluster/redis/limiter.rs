//! Limits that replicas share, on every kind of Redis.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use handbill_pages::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use handbill_pages::values::client::Client;
use handbill_pages::values::quota::Quota;
use redis::AsyncCommands;

use super::servers::{ALL, OwnServer, PATIENT, Replica, client, connect, to};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_100_attempts_over_4_replicas_just_the_limit_is_admitted() {
    for servers in ALL {
        let replicas: Vec<Arc<Replica>> =
            (0..4).map(|_| Arc::new(Replica::start(&servers.settings(), PATIENT))).collect();
        let client = client();
        let attempts = (0..100).map(|attempt| {
            let replica = replicas[attempt % 4].clone();
            tokio::spawn(async move { replica.check(client).await.admitted })
        });
        let admitted = join_all(attempts).await.into_iter().filter(|admitted| *admitted.as_ref().unwrap()).count();
        assert_eq!(admitted, 10, "{servers:?}");
        assert!(replicas.iter().all(|replica| !replica.decided_alone()), "{servers:?} decided");
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
async fn keys_name_the_limit_and_the_client() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let client = Client::from("192.0.2.7".parse::<std::net::IpAddr>().unwrap());
    replica.check(client).await;
    let keys: Vec<String> = connect(&server.address()).await.keys("*").await.unwrap();
    assert_eq!(keys, ["handbill:limit:{create:192.0.2.7/32}"]);
}

#[tokio::test]
async fn a_redis_that_has_forgotten_the_script_is_told_it_again() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let client = client();
    replica.check(client).await;
    let mut connection = connect(&server.address()).await;
    redis::cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut connection).await.unwrap();
    assert_eq!(replica.check(client).await.remaining, 8);
    assert!(!replica.decided_alone());
}

#[tokio::test]
async fn a_connection_that_was_cut_is_made_again_at_once() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let client = client();
    replica.check(client).await;
    let mut connection = connect(&server.address()).await;
    let others = ["KILL", "TYPE", "normal", "SKIPME", "yes"];
    let _: u32 = redis::cmd("CLIENT").arg(&others).query_async(&mut connection).await.unwrap();
    assert_eq!(replica.check(client).await.remaining, 8);
    assert!(!replica.decided_alone());
}
