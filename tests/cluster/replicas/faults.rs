//! The service during outages of the servers that it needs, and its recovery without help.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use handbill_pages::ports::clock::SystemClock;
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::random::Random;
use handbill_pages::values::slug::Slug;
use handbill_store_scylla::{Limits, ScyllaStore};
use handbill_test_support::client::get;
use handbill_test_support::environment::{FAR_TOO_LONG, TEST_TIMEOUT, until};
use handbill_test_support::pages::new_key;
use handbill_test_support::server::{handbill, run, text};

use super::calls::{Published, Reply, create, create_with, publish, read, rewrite};
use super::service::{Service, Settings};

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
    let calls = (0..100).map(|number| {
        let (balancer, page) = (service.balancer, pages[number % pages.len()].clone());
        tokio::spawn(async move {
            match number % 3 {
                0 => create(balancer).await,
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
        assert_eq!(get(replica.admin, "/readyz").unwrap().status, 200, "or no client would see our 503");
        assert_eq!(get(replica.admin, "/livez").unwrap().status, 200);
    }
    assert_eq!(service.metric(AVAILABLE), [0; 3]);

    service.nodes.resume(2);
    service.nodes.resume(3);
    until("the service comes back", async || create(service.balancer).await.status == 201).await;
    for page in &pages {
        until_it_is_read(service.balancer, page).await;
    }
    for replica in &service.replicas {
        until_it_is_read(replica.address, &pages[0]).await;
    }
    assert_eq!(service.metric(AVAILABLE), [1; 3]);
}

/// Reads `page` until it is answered. A replica that has waited in vain for a page refuses to read it for a while.
async fn until_it_is_read(address: SocketAddr, page: &Published) {
    until("the page is read again", async || read(address, page).await.status == 200).await;
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
async fn without_a_majority_migrate_makes_nothing_and_says_so() {
    let service = Service::start(Settings::unlimited()).await;
    let session = service.session().await;
    let nodes = service.nodes.shared().addresses();
    let mut migrate =
        handbill(["migrate", "--store", "scylla", "--scylla-nodes", &nodes, "--scylla-keyspace", "minority"]);
    migrate.args(["--schema-wait", "1s"]);
    service.nodes.hang(2);
    service.nodes.hang(3);
    let refused = run(migrate, b"");
    service.nodes.heal().await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("start the majority of its nodes"), "{refused:?}");
    let query = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'minority'";
    let made = session.query_unpaged(query, ()).await.expect("the nodes are up").into_rows_result().expect("rows");
    assert_eq!(made.rows_num(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_not_ready_before_it_has_reached_its_database() {
    let service = Service::start(Settings::unlimited()).await;
    for node in 1..=3 {
        service.nodes.hang(node);
    }
    let late = service.another_replica();
    let said = get(late.admin, "/readyz").unwrap();
    assert_eq!(said.status, 503);
    assert!(said.json()["missing"].as_object().is_some_and(|missing| !missing.is_empty()), "{said:?}");
    let reply = create(late.address).await.expect_status(503);
    assert!(reply.retry_after.is_some());

    for node in 1..=3 {
        service.nodes.resume(node);
    }
    late.ready();
    publish(late.address).await;
    assert!(late.stop().0.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_pages_are_served_as_before() {
    let limits = Settings { create_limit: 100_000, edit_limit: 100_000, ..Settings::unlimited() };
    let mut service = Service::start(limits).await;
    let [one, two, three] = [0, 1, 2].map(|number: usize| service.replicas[number].address);
    let keys = [new_key(), new_key()];
    let before = create_with(one, &keys[0]).await.expect_status(201);
    service.redis.kill();
    let without = create_with(one, &keys[1]).await.expect_status(201);
    for (key, made) in keys.iter().zip([before, without]) {
        for replica in [one, two, three] {
            assert_eq!(create_with(replica, key).await.expect_status(201).body, made.body, "it finds its page");
        }
        let page = Published { slug: made.text("slug").to_owned(), key: key.clone() };
        rewrite(two, &page, "second").await.expect_status(200);
        assert_eq!(create_with(three, key).await.expect_status(400).text("error"), "key_in_use");
    }
    // A replica notices only when it is asked for something, which each of them was.
    until_every_replica_says(&service, true).await;
    service.redis.start_again();
    until_every_replica_says(&service, false).await;
}

/// Waits until every replica reports that it counts on its own, or that it does not.
async fn until_every_replica_says(service: &Service, falls_back: bool) {
    let all_say_so = async || service.metric(FALLBACK).iter().all(|fallback| (*fallback > 0) == falls_back);
    until("a metric says so", all_say_so).await;
}

/// As many reads at once as there are readers, so that none waits for another.
const READS: Limits = Limits {
    operation: Duration::from_millis(2500),
    attempt: Duration::from_millis(1500),
    permit: Duration::from_millis(250),
    reads: 24,
    writes: 64,
    ranges: 4,
};

/// A node that hangs gets a third of the reads. If each waited 0.5 s for its second try, the mean would be 167 ms longer; with
/// 50 ms it is 17. The mean times the reads per second is how many of them are held.
const HELD: Duration = Duration::from_millis(80);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hangs_holds_few_of_a_replicas_reads() {
    let service = Service::start(Settings::unlimited()).await;
    let slugs: Vec<Slug> =
        pages(&service).await.iter().map(|page| Slug::parse(&page.slug).expect("it is one")).collect();
    let store = ScyllaStore::new(READS, Random::System, Arc::new(SystemClock::new()));
    store.connect(&service.store_settings(), |_| {}).await.expect("it is migrated");
    let mean = async || {
        let reader = async |slugs: &[Slug]| {
            let began = Instant::now();
            for slug in slugs {
                store.head(slug).await.map_err(|error| error.causes()).expect("two nodes of three answer");
            }
            began.elapsed()
        };
        let times = join_all(slugs.iter().cycle().take(READS.reads).map(|_| reader(&slugs))).await;
        times.iter().sum::<Duration>() / u32::try_from(times.len() * slugs.len()).expect("they are few")
    };
    mean().await;
    for node in 1..=3 {
        let before = mean().await;
        service.nodes.hang(node);
        let hung = mean().await;
        service.nodes.resume(node);
        println!("node {node}: a read took {before:?} before, {hung:?} while it hung");
        assert!(hung < before * 2 + HELD, "a read took {before:?} before, {hung:?} while node {node} hung");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_eight_writers_of_a_page_are_no_slower_than_one() {
    let service = Service::start(Settings::unlimited()).await;
    let replica = service.replicas[0].address;
    let page = publish(replica).await;
    let edits = async |writers: usize| {
        let began = Instant::now();
        let writing = (0..writers).map(async |writer| {
            let mut done = 0;
            while began.elapsed() < Duration::from_secs(4) {
                let text = format!("writer {writer}, edit {done}");
                rewrite(replica, &page, &text).await.expect_status(200);
                done += 1;
            }
            done
        });
        join_all(writing).await
    };
    let alone = edits(1).await[0];
    let together = edits(48).await;
    let (all, least) = (together.iter().sum::<usize>(), together.iter().min());
    println!("one writer: {alone} edits, 48 writers: {all}, the slowest of them {least:?}");
    assert!(all * 4 >= alone * 3, "{all} edits of 48 writers, {alone} of one");
}
