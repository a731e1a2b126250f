//! What becomes of the service when what it stands on goes away, and that it is back by itself.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::Value;

use crate::calls::{Published, Reply, create, publish, read, rewrite};
use crate::service::{Service, Settings};

/// Longest that anybody waits for an answer, whatever is lost, beyond what the same call takes when nothing is.
pub(crate) const LONGEST: Duration = Duration::from_secs(3);

/// How often the service is asked whether it is back.
const AGAIN: Duration = Duration::from_millis(50);

/// When it counts as not coming back.
const PATIENCE: Duration = Duration::from_mins(2);

/// Pages for [`wave`], each of which it updates a few times: updates of one page get into each other's way.
async fn pages(service: &Service) -> Vec<Published> {
    join_all((0..20).map(|_| publish(service.balancer))).await
}

/// 1 while a replica counts by itself.
const FALLBACK: &str = "handbill_rate_limit_fallback";

/// A hundred calls of all kinds at once.
async fn wave(service: &Service, pages: &[Published]) -> Vec<Reply> {
    let calls = (0..100).map(|number| {
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
    tokio::time::timeout(PATIENCE, back).await.expect("the service comes back");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_everybody_is_told_503_in_time_and_with_it_the_service_is_back() {
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
    // The third is no slower than the first is allowed to be: nothing piles up.
    assert!(waves.iter().all(|took| *took <= LONGEST + calm), "{waves:?}, and {calm:?} with all nodes");
    for replica in &service.replicas {
        assert_eq!(replica.ask("/readyz").await.0, StatusCode::OK, "or no client would see our 503");
        assert_eq!(replica.ask("/livez").await.0, StatusCode::OK);
        let (_, metrics) = replica.ask("/metrics").await;
        let tells =
            |line: &str| line.starts_with("handbill_store_duration_seconds_count") && line.contains("unavailable");
        assert!(metrics.lines().any(tells), "{metrics}");
    }

    service.nodes.resume(2);
    service.nodes.resume(3);
    until_it_publishes(&service).await;
    for page in &pages {
        read(service.balancer, page).await.has(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_not_ready_before_it_has_reached_its_database_and_says_so() {
    let service = Service::start(Settings::unlimited()).await;
    for node in 1..=3 {
        service.nodes.hang(node);
    }
    let anywhere = "127.0.0.1:0".parse().expect("an address");
    let late = crate::replica::Replica::start(anywhere, anywhere, service.replica_settings()).await;
    let (status, said) = late.ask("/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    assert!(said["missing"].as_object().is_some_and(|missing| !missing.is_empty()), "{said}");
    let reply = create(late.public, Ipv4Addr::LOCALHOST).await.has(503);
    assert!(reply.retry_after.is_some());

    for node in 1..=3 {
        service.nodes.resume(node);
    }
    late.ready().await;
    publish(late.public).await;
    assert!(late.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_pages_are_served_as_before_and_its_return_is_noticed() {
    let mut service =
        Service::start(Settings { create_limit: 100_000, edit_limit: 100_000, ..Settings::unlimited() }).await;
    let pages = pages(&service).await;
    let calm = slowest(&wave(&service, &pages).await);
    service.redis.lose().await;
    let replies = wave(&service, &pages).await;
    for reply in &replies {
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
    }
    assert!(slowest(&replies) <= LONGEST + calm, "{:?}, and {calm:?} with Redis", slowest(&replies));
    until_every_replica_says(&service, &pages[0], true).await;
    service.redis.replace().await;
    until_every_replica_says(&service, &pages[0], false).await;
}

/// Waits until every replica says that it counts by itself, or that it does not. It is requests that look for Redis.
async fn until_every_replica_says(service: &Service, page: &Published, falls_back: bool) {
    let saying = async {
        while service.metric(FALLBACK).await.iter().any(|fallback| (*fallback > 0.0) != falls_back) {
            for replica in &service.replicas {
                rewrite(replica.public, page, "again").await.has(200);
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, saying).await.expect("a metric says so");
}
