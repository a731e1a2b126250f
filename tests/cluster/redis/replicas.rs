//! A master is lost, and another server takes over.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use handbill_rate_limit::RedisMode;
use handbill_test_support::environment::FAR_TOO_LONG;
use rustix::process::Signal;

use super::faults::come_back;
use super::servers::{OwnServers, Replica, USUAL, client, connect};

#[tokio::test]
async fn when_sentinels_name_another_master_the_replica_goes_there() {
    for signal in [Signal::KILL, Signal::STOP] {
        let servers = OwnServers::start(RedisMode::Sentinel);
        let mut replica = Replica::start(&servers.settings, USUAL);
        let client = client();
        for _ in 0..10 {
            replica.check(client).await;
        }
        servers.signal("master", signal);
        // Attempts continue through the failover. None is admitted, because Redis or the replica has counted ten.
        let started = Instant::now();
        while !replica.has_lost_redis() {
            let asked = Instant::now();
            assert!(!replica.check(client).await.admitted);
            assert!(asked.elapsed() < FAR_TOO_LONG);
            assert!(started.elapsed() < Duration::from_mins(1), "it never fell back");
        }
        come_back(&mut replica).await;
    }
}

/// Waits until the replica of the master at `url` has everything that was written until now. Redis acknowledges a write
/// earlier, and a successor does not know the writes that its master never sent to it.
async fn until_its_successor_knows(url: &str) {
    let mut master = connect(url).await;
    let mut told = async || redis::cmd("INFO").arg("replication").query_async::<String>(&mut master).await.unwrap();
    let number = |text: &str, name: &str| -> u64 {
        let (_, after) = text.split_once(name).unwrap_or_else(|| panic!("no {name} in {text}"));
        after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let written = number(&told().await, "master_repl_offset:");
    let known = async { while number(&told().await, ",offset=") < written {} };
    tokio::time::timeout(Duration::from_mins(2), known).await.expect("the replica follows its master");
}

#[tokio::test]
async fn the_loss_of_a_shard_reaches_its_own_clients_alone() {
    for signal in [Signal::KILL, Signal::STOP] {
        let servers = OwnServers::start(RedisMode::Cluster);
        let replicas = [(); 3].map(|()| Replica::start(&servers.settings, USUAL));
        let url = &servers.settings.urls[0].0;
        let mut master = connect(url).await;
        let (mut its_own, mut others) = (Vec::new(), Vec::new());
        for client in (0..60).map(|_| client()) {
            let mut exists = redis::cmd("EXISTS");
            exists.arg(format!("handbill:limit:{{create:{}}}", client.network()));
            let is_here = exists.query_async::<u32>(&mut master).await.is_ok();
            if is_here { its_own.push(client) } else { others.push(client) }
        }
        for replica in &replicas {
            join_all(its_own.iter().chain(&others).map(|_| replica.check(client()))).await;
        }
        servers.signal(&format!("node-{}", url.rsplit(':').next().unwrap()), signal);
        let losing = replicas.iter().flat_map(|replica| its_own.iter().map(|client| replica.check(*client)));
        let staying = async {
            for client in &others {
                let attempts = replicas.iter().cycle().take(24).map(|replica| replica.check(*client));
                let admitted = join_all(attempts).await.iter().filter(|decision| decision.admitted).count();
                assert_eq!(admitted, 10, "its own shard is well");
            }
        };
        tokio::join!(join_all(losing), staying);
        assert!(replicas.iter().all(Replica::has_lost_redis), "{} attempts in vain", its_own.len());
    }
}

#[tokio::test]
async fn when_a_master_of_a_cluster_is_lost_its_clients_stay_limited() {
    for signal in [Signal::KILL, Signal::STOP] {
        let servers = OwnServers::start(RedisMode::Cluster);
        let mut replica = Replica::start(&servers.settings, USUAL);
        let clients: Vec<_> = (0..24).map(|_| client()).collect();
        for client in &clients {
            for _ in 0..10 {
                replica.check(*client).await;
            }
        }
        let url = &servers.settings.urls[0].0;
        let first = url.rsplit(':').next().unwrap().to_owned();
        until_its_successor_knows(url).await;
        servers.signal(&format!("node-{first}"), signal);
        let lost = Instant::now();
        // The loop ends when the cluster has answered all clients in one round.
        loop {
            replica.alone.mark_unchanged();
            for client in &clients {
                let asked = Instant::now();
                let decision = replica.check(*client).await;
                assert!(!decision.admitted, "the limit holds through the failover");
                assert!(asked.elapsed() < FAR_TOO_LONG, "{:?}", asked.elapsed());
            }
            if !replica.decided_alone() {
                break;
            }
            come_back(&mut replica).await;
            assert!(lost.elapsed() < Duration::from_mins(2), "it came back by itself");
        }
    }
}
