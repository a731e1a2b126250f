//! The permission for shared caches to keep pages, and purges (contract, decision 21).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request as Asked;
use axum::http::StatusCode;
use handbill::backends::purging::{Caches, Purges, Purging};
use handbill::telemetry::metrics::Metrics;
use handbill::web::SiteSettings;
use handbill_core::domain::edge_caching::EdgeCaching;
use handbill_core::domain::origin::Origin;
use handbill_core::domain::purge_url::PurgeUrl;
use handbill_store_redb::RedbStore;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::heads_first::{HeadsFirst, Reads};
use crate::in_process::stores::{Fault, Operation, WatchedStore};
use crate::support::app::BASE_URL;
use crate::support::exchange::Request;

#[tokio::test]
async fn with_edge_max_age_html_and_markdown_at_its_own_address_may_be_kept_and_nothing_else() {
    let caching = EdgeCaching { max_age: Duration::from_mins(5) };
    let site = SiteSettings { edge_caching: Some(caching), ..SiteSettings::default() };
    let app = Setup::unlimited().site(site).start();
    let (page, gone) = (app.published().await, app.deleted().await);
    let ask = |target: String, accept: &'static str| app.send(Request::get(target).header("accept", accept));
    for target in [format!("/{}", page.slug), format!("/{}.md", page.slug)] {
        let answer = ask(target.clone(), "text/html").await;
        let again = Request::get(&target).header("if-none-match", answer.expect_status(200).header("etag"));
        let unchanged = app.send(again).await;
        unchanged.expect_status(304);
        for answer in [answer, unchanged] {
            let allowed = answer.header("cdn-cache-control");
            assert_eq!(allowed, "max-age=300, stale-while-revalidate=10, stale-if-error=60", "{target}");
            assert_eq!(answer.header("cache-control"), "no-cache", "browsers ask each time");
        }
    }
    for (target, accept) in [
        (format!("/{}", page.slug), "text/markdown"),
        (format!("/api/pages/{}", page.slug), "*/*"),
        (format!("/{}", gone.slug), "text/html"),
        (format!("/{}.md", gone.slug), "text/html"),
        (format!("/{}", gone.slug), "*/*"),
        ("/never-was-2222bbbb".to_owned(), "text/html"),
        ("/never-was-2222bbbb.md".to_owned(), "*/*"),
        (format!("/{}/edit", page.slug), "text/html"),
        ("/".to_owned(), "text/html"),
    ] {
        let answer = ask(target.clone(), accept).await;
        assert!(!answer.headers.contains_key("cdn-cache-control"), "{target} as {accept}: {answer:?}");
    }
    let updated = app.update(&page, json!({"content": "new"})).await;
    assert!(!updated.expect_status(200).headers.contains_key("cdn-cache-control"));
}

/// A cache that notes what it is asked.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

impl Noting {
    /// Starts it. Returns its address too.
    async fn start() -> (Self, String) {
        let noting = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let notes = noting.clone();
        let answer = async move |asked: Asked| {
            let (head, body) = asked.into_parts();
            let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            let token = head.headers.get("authorization").map_or("", |token| token.to_str().unwrap());
            let note = format!("{} {} {token}{body}", head.method, head.uri);
            notes.0.lock().unwrap().push(note.trim_end().to_owned());
            StatusCode::OK
        };
        let routes = Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (noting, address)
    }

    /// The requests since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Purges at `urls`.
fn purges(urls: &[String], token: Option<&str>) -> (Purges, Arc<Metrics>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), token.unwrap_or_default()).unwrap();
    let token_file = token.map(|_| file.into_temp_path().keep().unwrap());
    let urls = urls.iter().map(|url| PurgeUrl::parse(url).unwrap()).collect();
    let caches = Caches::new(urls, token_file, Origin::parse(BASE_URL).unwrap()).unwrap();
    let metrics = Arc::new(Metrics::new());
    (Purges::start(caches, Duration::from_mins(1), &metrics), metrics)
}

/// A service whose changes are purged at `urls`, over a store that the test controls.
fn purging(urls: &[String], token: Option<&str>) -> (TestApp, Arc<WatchedStore>, Arc<Metrics>) {
    let (purges, metrics) = purges(urls, token);
    let inner = Arc::new(WatchedStore::around(Arc::new(RedbStore::in_memory().unwrap())));
    let store = Purging::new(Arc::clone(&inner) as _, purges);
    (Setup::unlimited().over(Arc::new(store)).start(), inner, metrics)
}

#[tokio::test]
async fn a_change_and_a_deletion_are_purged_before_they_are_acknowledged_and_nothing_else_is() {
    let (cache, address) = Noting::start().await;
    let urls = [format!("{address}/{{slug}}"), format!("{address}/{{slug}}.md")];
    let (app, _, metrics) = purging(&urls, Some("sesame\n"));
    let page = app.published().await;
    app.get(&format!("/{}", page.slug)).await.expect_status(200);
    app.update(&page, json!({})).await.expect_status(200);
    app.send(Request::update(&page.slug, r#"{"content": "x"}"#)).await.expect_status(401);
    assert_eq!(cache.asked(), Vec::<String>::new(), "nothing has changed");

    let purged = || {
        let mut asked = cache.asked();
        asked.sort();
        asked
    };
    let expected = ["", ".md"].map(|suffix| format!("PURGE /{}{suffix} Bearer sesame", page.slug));
    app.update(&page, json!({"title": "New"})).await.expect_status(200);
    assert_eq!(purged(), expected);
    app.update(&page, json!({"content": "new"})).await.expect_status(200);
    assert_eq!(purged(), expected);
    app.delete(&page).await.expect_status(204);
    assert_eq!(purged(), expected);
    let exposed = metrics.exposition();
    assert!(exposed.contains("handbill_edge_purges_total{outcome=\"done\"} 3\n"), "{exposed}");
    assert!(exposed.contains("handbill_edge_purges_waiting 0\n"), "{exposed}");
}

#[tokio::test]
async fn a_cache_with_one_address_for_all_pages_is_told_the_slug_as_a_tag_by_post() {
    let (cache, address) = Noting::start().await;
    let (app, _, _) = purging(&[format!("{address}/purge")], None);
    let page = app.published().await;
    app.update(&page, json!({"content": "new"})).await.expect_status(200);
    assert_eq!(cache.asked(), [format!("POST /purge {{\"tags\":[\"{}\"]}}", page.slug)]);
}

#[tokio::test]
async fn a_write_whose_outcome_is_unknown_is_purged_because_it_may_have_been_made() {
    let (cache, address) = Noting::start().await;
    let (app, store, _) = purging(&[format!("{address}/{{slug}}")], None);
    let page = app.published().await;
    store.next(Operation::Swap, Fault::DoneButUnknown);
    app.update(&page, json!({"content": "new"})).await.expect_status(503);
    assert_eq!(cache.asked(), [format!("PURGE /{}", page.slug)]);
    store.next(Operation::Swap, Fault::Unavailable);
    app.update(&page, json!({"content": "newer"})).await.expect_status(503);
    assert_eq!(cache.asked(), Vec::<String>::new(), "nothing was changed");
}

#[tokio::test]
async fn a_store_whose_changes_are_purged_is_told_when_its_answer_is_needed() {
    let (_cache, address) = Noting::start().await;
    let (app, store, _) = purging(&[format!("{address}/{{slug}}")], None);
    let page = app.published().await;
    app.update(&page, json!({"content": "new"})).await.expect_status(200);
    assert!(store.swap_needed_by().is_some());
}

#[tokio::test]
async fn a_change_whose_client_has_gone_is_made_and_purged_all_the_same() {
    let (cache, address) = Noting::start().await;
    let (app, store, _) = purging(&[format!("{address}/{{slug}}")], None);
    let page = app.published().await;
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes_on) = (Arc::clone(&begun), Arc::clone(&go_on));
    let meanwhile = async move {
        begins.notify_one();
        goes_on.notified().await;
    };
    store.next(Operation::Swap, Fault::Meanwhile(Box::pin(meanwhile)));
    let update = tokio::spawn({
        let (app, page) = (app.clone(), page.clone());
        async move { app.update(&page, json!({"content": "new"})).await }
    });
    begun.notified().await;
    update.abort();
    assert!(update.await.unwrap_err().is_cancelled());
    go_on.notify_one();
    store.has_answered(Operation::Swap, 1).await;
    while cache.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(cache.asked(), [format!("PURGE /{}", page.slug)]);
    assert_eq!(app.page(&page.slug).await["content"], "new");
}

#[tokio::test]
async fn a_store_that_keeps_texts_apart_is_asked_for_heads_first_behind_purges_too() {
    let (cache, address) = Noting::start().await;
    let store = HeadsFirst::new();
    let (purges, _) = purges(&[format!("{address}/{{slug}}")], None);
    let app = Setup::unlimited().over(Arc::new(Purging::new(Arc::clone(&store) as _, purges))).start();
    let page = app.published().await;
    app.read(&page.slug).await.expect_status(200);
    assert_eq!(store.take_reads(), Reads { heads: 1, texts: 1, lookups: 0 });
    app.read(&page.slug).await.expect_status(200);
    assert_eq!(store.take_reads(), Reads { heads: 1, texts: 0, lookups: 0 }, "the text is known");
    app.update(&page, json!({"content": "new"})).await.expect_status(200);
    assert_eq!(cache.asked(), [format!("PURGE /{}", page.slug)]);
}
