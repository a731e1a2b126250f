//! A replica loses its Redis and gets it back.

use std::time::{Duration, Instant};

use handbill_pages::values::client::Client;
use handbill_pages::values::quota::Decision;
use handbill_test_support::environment::FAR_TOO_LONG;
use handbill_test_support::port::Port;
use redis::AsyncCommands;

use super::servers::{OwnServer, Replica, client, connect, to};

/// Short, so that a frozen server is noticed soon, but long enough for a healthy one on a slow machine.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

async fn decide(replica: &Replica, client: Client) -> Decision {
    let started = Instant::now();
    let decision = replica.check(client).await;
    assert!(started.elapsed() < FAR_TOO_LONG, "{:?}", started.elapsed());
    decision
}

/// Makes attempts, all of which Redis decides.
async fn decide_in_redis(replica: &Replica, client: Client, attempts: u32) {
    for _ in 0..attempts {
        decide(replica, client).await;
    }
    assert!(!replica.decided_alone());
}

/// Makes the attempts that show the replica that its Redis is lost.
async fn lose(replica: &Replica, client: Client) {
    for _ in 0..3 {
        assert!(!replica.has_lost_redis(), "one failure is no loss");
        decide(replica, client).await;
    }
    assert!(replica.has_lost_redis());
}

/// Waits until the replica has found its Redis, without any request.
pub(crate) async fn come_back(replica: &mut Replica) {
    let back = replica.alone.wait_for(|alone| alone.servers == 0);
    let back = tokio::time::timeout(Duration::from_mins(2), back).await;
    back.expect("it came back by itself").expect("it is there");
}

#[tokio::test]
async fn without_redis_a_replica_goes_on_with_its_own_window() {
    let mut server = OwnServer::start();
    let mut replica = Replica::start(&to(&server.address()), SHORT);
    let client = client();
    decide_in_redis(&replica, client, 6).await;
    server.kill();

    let mut admitted = 6;
    while decide(&replica, client).await.admitted {
        admitted += 1;
    }
    assert_eq!(admitted, 10, "falling back hands out no fresh quota");
    assert!(replica.decided_alone());
    assert_eq!(replica.fallback.get(), 1);

    server.start_again();
    come_back(&mut replica).await;
    assert_eq!(replica.fallback.get(), 0);
    decide_in_redis(&replica, client, 1).await;
    let key = format!("handbill:limit:{{create:{}}}", client.network());
    let counted: u32 = connect(&server.address()).await.zcard(key).await.unwrap();
    assert_eq!(counted, 1, "Redis decides again, and has forgotten what was before");
}

#[tokio::test]
async fn a_redis_that_hangs_delays_three_attempts_and_no_other() {
    let server = OwnServer::start();
    let mut replica = Replica::start(&to(&server.address()), SHORT);
    let client = client();
    decide_in_redis(&replica, client, 5).await;
    server.freeze();
    lose(&replica, client).await;
    assert_eq!(decide(&replica, client).await.remaining, 1, "what Redis had admitted counts");
    assert_eq!(replica.fallback.get(), 1);

    let started = Instant::now();
    for _ in 0..1000 {
        decide(&replica, client).await;
    }
    assert!(started.elapsed() < FAR_TOO_LONG, "{:?}: 2000 s if each had waited", started.elapsed());
    assert!(!decide(&replica, client).await.admitted);

    server.thaw();
    come_back(&mut replica).await;
}

#[tokio::test]
async fn a_replica_that_starts_without_redis_finds_it_later() {
    let port = Port::hold();
    let mut replica = Replica::start(&to(&format!("redis://{}", port.address)), SHORT);
    let noticed = replica.alone.wait_for(|alone| alone.servers > 0);
    tokio::time::timeout(Duration::from_mins(2), noticed).await.expect("unasked").expect("it is there");
    assert_eq!(replica.fallback.get(), 1);
    assert!(decide(&replica, client()).await.admitted);

    let _server = OwnServer::start_with(&["--port", &port.number().to_string()]);
    come_back(&mut replica).await;
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_not_returned_to() {
    let server = OwnServer::start();
    let mut replica = Replica::start(&to(&server.address()), SHORT);
    let client = client();
    decide_in_redis(&replica, client, 1).await;
    // This demotes the master: it answers, and rejects writes.
    let mut connection = connect(&server.address()).await;
    let nobody = Port::hold();
    let of_nobody = ["127.0.0.1".to_owned(), nobody.number().to_string()];
    let () = redis::cmd("REPLICAOF").arg(&of_nobody).query_async(&mut connection).await.unwrap();
    lose(&replica, client).await;
    // The replica has tried to write twice when this loop ends.
    let mut rejected = 0;
    while rejected < 2 {
        assert!(replica.has_lost_redis(), "it returned to a server that takes no writes");
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
        let writes = stats.lines().find(|line| line.starts_with("cmdstat_set:"));
        rejected = writes.map_or(0, |line| {
            let (_, count) = line.split_once("rejected_calls=").expect("Redis counts rejected commands");
            count.split(',').next().unwrap().parse::<u32>().unwrap()
        });
    }
    let () = redis::cmd("REPLICAOF").arg(&["NO", "ONE"]).query_async(&mut connection).await.unwrap();
    come_back(&mut replica).await;
}

#[tokio::test]
async fn a_redis_without_memory_is_lost_until_it_has_some() {
    let server = OwnServer::start();
    let mut replica = Replica::start(&to(&server.address()), SHORT);
    decide_in_redis(&replica, client(), 1).await;
    let mut connection = connect(&server.address()).await;
    let mut limit = async |bytes| {
        redis::cmd("CONFIG").arg(&["SET", "maxmemory", bytes]).query_async::<()>(&mut connection).await.unwrap();
    };
    limit("1").await;
    lose(&replica, client()).await;
    limit("0").await;
    come_back(&mut replica).await;
}
