//! The service during outages of the servers that it needs, and its recovery without help.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::Value;

use super::calls::{Published, Reply, create, create_with, publish, read, rewrite};
use super::service::{Service, Settings};
use crate::environment::{FAR_TOO_LONG, TEST_TIMEOUT, in_time};

/// How often the service is asked whether it works again.
const AGAIN: Duration = Duration::from_millis(50);

/// Pages for [`wave`], which updates each page only a few times, since updates of one page conflict.
async fn pages(service: &Service) -> Vec<Published> {
    join_all((0..20).map(|_| publish(service.balancer))).await
}

/// 1 while a replica counts requests on its own.
const FALLBACK: &str = "handbill_rate_limit_fallback";

/// 1 while the database answers.
const AVAILABLE: &str = "handbill_store_available";

/// A hundred calls of all kinds at once.
async fn wave(service: &Service, pages: &[Published]) -> Vec<Reply> {
    calls(service, pages, 100).await
}

/// So many calls of all kinds at once.
async fn calls(service: &Service, pages: &[Published], count: usize) -> Vec<Reply> {
    let calls = (0..count).map(|number| {
        let (balancer, page) = (service.balancer, pages[number % pages.len()].clone());
        tokio::spawn(async move {
            match number % 3 {
                0 => create(balancer, Ipv4Addr::LOCALHOST).await,
                1 => read(balancer, &page).await,
                _ => rewrite(balancer, &page, &format!("update {number}")).await,
            }
        })
    });
    join_all(calls).await.into_iter().map(|call| call.expect("no call panics")).collect()
}

fn slowest(replies: &[Reply]) -> Duration {
    replies.iter().map(|reply| reply.took).max().unwrap_or_default()
}

/// Waits until pages can be published again.
async fn until_it_publishes(service: &Service) {
    let back = async {
        while create(service.balancer, Ipv4Addr::LOCALHOST).await.status != 201 {
            tokio::time::sleep(AGAIN).await;
        }
    };
    in_time("the service comes back", back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_everybody_is_told_503_in_time() {
    let service = Service::start(Settings::unlimited()).await;
    let pages = pages(&service).await;
    let calm = slowest(&wave(&service, &pages).await);

    service.nodes.hang(2);
    service.nodes.hang(3);
    let mut waves = Vec::new();
    for _ in 0..3 {
        let replies = wave(&service, &pages).await;
        for reply in &replies {
            assert_eq!(reply.status, 503, "{reply:?}");
            assert_eq!(reply.text("error"), "unavailable", "a replica said it, not the load balancer");
            assert!(reply.retry_after.is_some_and(|seconds| seconds > 0), "{reply:?}");
        }
        waves.push(slowest(&replies));
    }
    println!("slowest: {calm:?} with all nodes, {waves:?} without a quorum");
    assert!(waves.iter().all(|took| *took < FAR_TOO_LONG), "{waves:?}, and {calm:?} with all nodes");
    for replica in &service.replicas {
        assert_eq!(replica.ask("/readyz").await.0, StatusCode::OK, "or no client would see our 503");
        assert_eq!(replica.ask("/livez").await.0, StatusCode::OK);
    }
    assert_eq!(service.metric(AVAILABLE).await, [0.0; 3]);

    service.nodes.resume(2);
    service.nodes.resume(3);
    until_it_publishes(&service).await;
    for page in &pages {
        until_it_is_read(service.balancer, page).await;
    }
    for replica in &service.replicas {
        until_it_is_read(replica.public, &pages[0]).await;
    }
    assert_eq!(service.metric(AVAILABLE).await, [1.0; 3]);
}

/// Reads `page` until it is answered. A replica that has waited in vain for a page refuses to read it for a while.
async fn until_it_is_read(address: SocketAddr, page: &Published) {
    let reading = async {
        while read(address, page).await.status != 200 {
            tokio::time::sleep(AGAIN).await;
        }
    };
    in_time("the page is read again", reading).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_node_of_three_hung_or_cut_off_requests_succeed() {
    let service = Service::start(Settings::unlimited()).await;
    let pages = pages(&service).await;
    for (node, hangs) in [(1, true), (2, false)] {
        if hangs {
            service.nodes.hang(node);
        } else {
            service.nodes.cut_off(node);
        }
        let until_all_succeed = async {
            let (mut failed, mut took) = (0, Duration::ZERO);
            loop {
                let replies = wave(&service, &pages).await;
                took = took.max(slowest(&replies));
                match replies.iter().filter(|reply| !matches!(reply.status, 200 | 201)).count() {
                    0 => return (failed, took),
                    some => failed += some,
                }
            }
        };
        let noticed = tokio::time::timeout(TEST_TIMEOUT, until_all_succeed).await;
        let (failed, took) = noticed.expect("the replicas go on without the node");
        println!("node {node}: {failed} requests failed before all of a hundred succeeded, the slowest took {took:?}");
        assert!(took < FAR_TOO_LONG, "{took:?}");
        service.nodes.heal().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_not_ready_before_it_has_reached_its_database() {
    let service = Service::start(Settings::unlimited()).await;
    for node in 1..=3 {
        service.nodes.hang(node);
    }
    let anywhere = "127.0.0.1:0".parse().expect("an address");
    let late = crate::replica::Replica::start(anywhere, anywhere, &service.replica_settings).await;
    let (status, said) = late.ask("/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    assert!(said["missing"].as_object().is_some_and(|missing| !missing.is_empty()), "{said}");
    let reply = create(late.public, Ipv4Addr::LOCALHOST).await.expect_status(503);
    assert!(reply.retry_after.is_some());

    for node in 1..=3 {
        service.nodes.resume(node);
    }
    late.ready().await;
    publish(late.public).await;
    assert!(late.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_pages_are_served_as_before() {
    let mut service =
        Service::start(Settings { create_limit: 100_000, edit_limit: 100_000, ..Settings::unlimited() }).await;
    let pages = pages(&service).await;
    // All of them must succeed, so they are few enough for the nodes to answer in time on a machine that is busy.
    let calm = slowest(&calls(&service, &pages, 30).await);
    service.redis.lose().await;
    let replies = calls(&service, &pages, 30).await;
    for reply in &replies {
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
    }
    println!("slowest: {calm:?} with Redis, {:?} without", slowest(&replies));
    assert!(slowest(&replies) < FAR_TOO_LONG);
    // A replica notices only when it is asked for something.
    for replica in &service.replicas {
        for _ in 0..3 {
            rewrite(replica.public, &pages[0], "again").await.expect_status(200);
        }
    }
    until_every_replica_says(&service, true).await;
    service.redis.replace().await;
    until_every_replica_says(&service, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_a_create_that_is_sent_again_finds_its_page() {
    let mut service =
        Service::start(Settings { create_limit: 100_000, edit_limit: 100_000, ..Settings::unlimited() }).await;
    let [before, without] =
        ["hbk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG", "hbk_GFEDCBAzyxwvutsrqponmlkjihgfedcba9876543210"];
    let first = create_with(service.replicas[0].public, before).await.expect_status(201);
    service.redis.lose().await;
    let second = create_with(service.replicas[0].public, without).await.expect_status(201);
    for (key, made) in [(before, &first), (without, &second)] {
        for replica in &service.replicas {
            assert_eq!(create_with(replica.public, key).await.expect_status(201).body, made.body);
        }
        let page = Published { slug: made.text("slug").to_owned(), key: key.to_owned() };
        rewrite(service.replicas[1].public, &page, "second").await.expect_status(200);
        assert_eq!(create_with(service.replicas[2].public, key).await.expect_status(400).text("error"), "key_in_use");
    }
}

/// Waits until every replica reports that it counts on its own, or that it does not.
async fn until_every_replica_says(service: &Service, falls_back: bool) {
    let saying = async {
        while service.metric(FALLBACK).await.iter().any(|fallback| (*fallback > 0.0) != falls_back) {
            tokio::time::sleep(AGAIN).await;
        }
    };
    in_time("a metric says so", saying).await;
}
