//! Shared caches in front of the real binary: Debian's Varnish and nginx with the files in `deploy/edge`.
//!
//! A read through a cache must show the newest write that was acknowledged before the read began. With
//! `--edge-max-age` it may show an older one, but no longer than operators were told.

mod caches;
mod history;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use tempfile::TempDir;
use tokio::net::TcpListener;

use self::caches::Cache;
use self::history::{Page, interleave, page_at, published, read, write};
use crate::connection::send;
use crate::deployment::Addresses;
use crate::environment::in_time;
use crate::replica::Replica;

/// How often to look for something that is about to happen.
const AGAIN: Duration = Duration::from_millis(20);

/// The token of operators.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A service that knows the cache in front of it.
struct Origin {
    replica: Replica,
    _data: TempDir,
}

impl Origin {
    async fn start(addresses: Addresses, settings: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let token = data.path().join("token");
        std::fs::write(&token, TOKEN).expect("it can be written");
        let (public, admin) = addresses.replica(1);
        let own = ["--data-dir", data.path().to_str().expect("it is text"), "--create-limit", "0", "--edit-limit", "0"];
        let token = ["--admin-token-file", token.to_str().expect("it is text"), "--log", "error"];
        let replica = Replica::start(public, admin, [&own[..], &token, settings].concat()).await;
        replica.ready().await;
        Self { replica, _data: data }
    }

    /// The value of the metric `name`, with its labels as they are exposed; 0 if it is not there.
    async fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.replica.ask("/metrics").await;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.split(' ').next());
        value.map_or(0, |value| value.parse().expect("a number"))
    }

    /// How many pages were asked for as HTML or Markdown, with each status.
    async fn reads(&self) -> u64 {
        let mut sum = 0;
        for status in [200, 304, 410] {
            sum += self.metric(&format!("http_server_request_duration_seconds_count{{http_request_method=\"GET\",http_route=\"/{{slug}}\",http_response_status_code=\"{status}\",url_scheme=\"http\"}}")).await;
        }
        sum
    }
}

/// Repeats `look` until it returns something.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    in_time(what, looking).await
}

fn purge_urls(cache: SocketAddr) -> String {
    format!("http://{cache}/{{slug}},http://{cache}/{{slug}}.md")
}

async fn status_at(cache: SocketAddr, page: &Page) -> StatusCode {
    page_at(cache, &page.slug, "").await.status()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_varnish_that_keeps_pages_and_asks_each_time_nothing_is_ever_stale() {
    let addresses = Addresses::draw();
    let origin = Origin::start(addresses, &[]).await;
    let cache = Cache::varnish(addresses).await;
    let seen = interleave(cache.address, 100).await;
    assert!(seen.stale.is_none() && seen.refused < seen.reads / 10, "{seen:?}");
    let page = published(cache.address, "Kept").await;
    for _ in 0..10 {
        assert_eq!(read(cache.address, &page, "").await, 0);
    }
    let unchanged = "http_server_request_duration_seconds_count{http_request_method=\"GET\",http_route=\"/{slug}\",http_response_status_code=\"304\",url_scheme=\"http\"}";
    assert!(origin.metric(unchanged).await >= 9, "the cache keeps pages and asks whether they have changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_nginx_nothing_is_ever_stale() {
    let addresses = Addresses::draw();
    let _origin = Origin::start(addresses, &[]).await;
    let cache = Cache::nginx(addresses).await;
    let seen = interleave(cache.address, 50).await;
    assert!(seen.stale.is_none() && seen.refused < seen.reads / 10, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_keeps_pages_unasked_and_is_not_purged_is_found_to_be_stale() {
    let addresses = Addresses::draw();
    let _origin = Origin::start(addresses, &["--edge-max-age", "1h"]).await;
    let cache = Cache::varnish(addresses).await;
    let seen = interleave(cache.address, 50).await;
    assert!(seen.stale.is_some(), "{seen:?}");
}

#[tokio::test]
async fn varnish_shows_no_change_deletion_or_takedown_late_once_it_was_purged() {
    let addresses = Addresses::draw();
    let cache = addresses.cache();
    let origin =
        Origin::start(addresses, &["--edge-max-age", "1h", "--purge-url", &format!("http://{cache}/{{slug}}")]).await;
    purged_in_time(&origin, &Cache::varnish(addresses).await).await;
}

#[tokio::test]
async fn nginx_shows_no_change_deletion_or_takedown_late_once_it_was_purged() {
    let addresses = Addresses::draw();
    let cache = addresses.cache();
    let origin = Origin::start(addresses, &["--edge-max-age", "1h", "--purge-url", &purge_urls(cache)]).await;
    purged_in_time(&origin, &Cache::nginx(addresses).await).await;
}

async fn purged_in_time(origin: &Origin, cache: &Cache) {
    let page = published(origin.replica.public, "Kept").await;
    let (cache, paths) = (cache.address, ["", ".md"]);
    let mut rounds_by_itself = 0;
    for number in 1..=20 {
        for path in paths {
            read(cache, &page, path).await;
        }
        let before = origin.reads().await;
        for path in paths {
            assert_eq!(read(cache, &page, path).await, number - 1, "{path}");
        }
        // A purge that was slow to be answered is sent again, and empties the cache once more.
        rounds_by_itself += u32::from(origin.reads().await == before);
        write(origin.replica.public, &page, number).await;
        for path in paths {
            assert_eq!(read(cache, &page, path).await, number, "{path}");
        }
    }
    assert!(rounds_by_itself > 0, "the cache answers by itself");
    // Markdown at the address of the HTML is never kept, and browsers are told to ask each time.
    let by_accept = page_at(cache, &page.slug, "text/markdown").await;
    assert_eq!(by_accept.headers()["content-type"], "text/markdown; charset=utf-8");
    let html = page_at(cache, &page.slug, "text/html").await;
    assert_eq!(
        (&html.headers()["content-type"], &html.headers()["cache-control"]),
        (&"text/html; charset=utf-8".parse().unwrap(), &"no-cache".parse().unwrap())
    );
    assert!(!html.headers().contains_key("cdn-cache-control"), "no second cache adds its time: {html:?}");

    let delete =
        Request::delete(format!("/api/pages/{}", page.slug)).header("authorization", format!("Bearer {}", page.key));
    let deleted = send(origin.replica.public, delete.body(Bytes::new()).unwrap()).await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    assert_eq!(status_at(cache, &page).await, StatusCode::GONE);

    let other = published(origin.replica.public, "Taken down").await;
    read(cache, &other, "").await;
    let body = serde_json::json!({"slugs": [other.slug], "reason": "spam", "by": "the tests"}).to_string();
    let takedown = Request::post("/takedown").header("authorization", format!("Bearer {TOKEN}"));
    let takedown = takedown.header("content-type", "application/json").body(Bytes::from(body)).unwrap();
    let answer = send(origin.replica.admin, takedown).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    assert_eq!(status_at(cache, &other).await, StatusCode::GONE);
    assert_eq!(origin.metric("handbill_edge_purges_total{outcome=\"done\"}").await, 22);
    assert_eq!(origin.metric("handbill_edge_purges_waiting").await, 0);
}

#[tokio::test]
async fn a_change_is_acknowledged_though_the_cache_is_silent_and_is_purged_once_it_answers() {
    let addresses = Addresses::draw();
    let cache = addresses.cache();
    let silent = TcpListener::bind(cache).await.unwrap();
    let origin =
        Origin::start(addresses, &["--edge-max-age", "1h", "--purge-url", &format!("http://{cache}/{{slug}}")]).await;
    let page = published(origin.replica.public, "Late").await;
    // Nobody answers the purge, which the write does not wait for to the end.
    write(origin.replica.public, &page, 1).await;
    assert_eq!(origin.metric("handbill_edge_purges_waiting").await, 1);
    drop(silent);
    let cache = Cache::varnish(addresses).await;
    until("the purge is repeated", async || (origin.metric("handbill_edge_purges_waiting").await == 0).then_some(()))
        .await;
    assert_eq!(origin.metric("handbill_edge_purges_total{outcome=\"repeated\"}").await, 1);
    assert_eq!(read(cache.address, &page, "").await, 1);
}

#[tokio::test]
async fn without_a_purge_varnish_shows_a_page_no_longer_than_the_bound_and_also_while_the_service_is_away() {
    const BOUND: u64 = 3;
    let addresses = Addresses::draw();
    let origin = Origin::start(addresses, &["--edge-max-age", "1s"]).await;
    let cache = Cache::varnish(addresses).await;
    let page = published(origin.replica.public, "Bounded").await;
    // Varnish itself says how old its answer is.
    let age = |answer: &http::Response<Bytes>| answer.headers()["age"].to_str().unwrap().parse::<u64>().unwrap();
    for number in 1..=2 {
        read(cache.address, &page, "").await;
        write(origin.replica.public, &page, number).await;
        until("the new text is shown", async || {
            let answer = page_at(cache.address, &page.slug, "").await;
            assert!(age(&answer) <= BOUND, "{answer:?}");
            (history::number_in(&answer) == number).then_some(())
        })
        .await;
    }
    read(cache.address, &page, "").await;
    origin.replica.stop().await;
    until("the kept page is not shown any more", async || {
        let answer = page_at(cache.address, &page.slug, "").await;
        let is_shown = answer.status() == StatusCode::OK;
        assert!(!is_shown || age(&answer) <= BOUND, "{answer:?}");
        (!is_shown).then_some(())
    })
    .await;
}

#[tokio::test]
async fn without_a_purge_nginx_shows_the_new_text_in_the_end_and_nothing_once_the_service_is_away_for_long() {
    let addresses = Addresses::draw();
    let origin = Origin::start(addresses, &["--edge-max-age", "1s"]).await;
    let cache = Cache::nginx(addresses).await;
    let page = published(origin.replica.public, "Bounded").await;
    read(cache.address, &page, "").await;
    write(origin.replica.public, &page, 1).await;
    until("the new text is shown", async || (read(cache.address, &page, "").await == 1).then_some(())).await;
    origin.replica.stop().await;
    until("the kept page is not shown any more", async || {
        (status_at(cache.address, &page).await != StatusCode::OK).then_some(())
    })
    .await;
}

#[tokio::test]
async fn only_the_service_may_purge() {
    let addresses = Addresses::draw();
    let origin = Origin::start(addresses, &["--edge-max-age", "1h"]).await;
    let varnish = Cache::varnish(addresses).await;
    let page = published(origin.replica.public, "Kept").await;
    read(varnish.address, &page, "").await;
    let purge = |slug: &str| Request::builder().method("PURGE").uri(format!("/{slug}")).body(Bytes::new()).unwrap();
    let refused = varnish.ask_from_elsewhere(purge(&page.slug)).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let odd = send(varnish.address, purge("a%20b")).await.unwrap();
    assert_eq!(odd.status(), StatusCode::BAD_REQUEST);
    let before = origin.reads().await;
    read(varnish.address, &page, "").await;
    assert_eq!(origin.reads().await, before, "the page is still kept");
}
