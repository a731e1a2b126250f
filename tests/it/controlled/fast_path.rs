//! Reads of pages are answered before the router and its layers, byte for byte as the router answers them.

use futures_util::FutureExt;
use serde_json::json;

use crate::in_process::app::TestApp;
use crate::in_process::both_ways::{assert_same, both_ways, routed};
use crate::in_process::heads_first::{HeadsFirst, Reads, replica};
use crate::in_process::stores::{Fault, Operation};
use crate::support::calls::Published;
use crate::support::exchange::Request;

fn targets(page: &Published) -> Vec<String> {
    let slug = &page.slug;
    let mut targets = vec![
        format!("/api/pages/{slug}"),
        format!("/{slug}"),
        format!("/{slug}.md"),
        format!("/{slug}?key=value"),
        format!("/api/pages/{slug}?a=b&c"),
        format!("/{slug}."),
        format!("/{slug}/"),
        format!("/{slug}.md."),
        format!("/{slug}.md.md"),
        format!("/{slug}/edit"),
        format!("/api/pages/{slug}.md"),
        format!("/api/pages/{slug}/"),
        format!("//{slug}"),
        format!("/{}", slug.to_uppercase()),
        format!("/{}", slug.replace('-', "%2D")),
        format!("/assets/{slug}"),
        format!("/{slug}?authorization=Bearer%20hbk_{}", "a".repeat(43)),
        format!("/api/pages/{slug}?key=hbk_{}", "a".repeat(43)),
    ];
    targets.extend(
        ["/", "/robots.txt", "/llms.txt", "/nothing-2222bbbb", "/api/pages/nothing-2222bbbb"].map(String::from),
    );
    targets
}

/// Header fields that a request may have.
fn variations(held: &[String]) -> Vec<Vec<(&'static str, String)>> {
    let mut all = vec![vec![]];
    for accept in ["*/*", "text/html", "text/markdown", "text/markdown;q=0.5, text/html;q=0.4", "application/json", ""]
    {
        all.push(vec![("accept", accept.to_owned())]);
    }
    for coding in ["gzip", "zstd, gzip;q=0.5", "*", "identity;q=0", "gzip;q=0", "br", ""] {
        all.push(vec![("accept-encoding", coding.to_owned())]);
    }
    for tag in held {
        all.push(vec![("if-none-match", tag.clone())]);
        all.push(vec![("if-none-match", format!("\"x\", W/{tag}")), ("if-none-match", "\"y\"".to_owned())]);
        all.push(vec![("if-none-match", tag.clone()), ("accept-encoding", "gzip".to_owned())]);
        all.push(vec![("if-none-match", tag.clone()), ("accept", "text/markdown".to_owned())]);
    }
    for (name, value) in [
        ("if-none-match", "*"),
        ("if-none-match", "\"x\""),
        ("if-match", "\"x\""),
        ("if-modified-since", "Sat, 21 Nov 2026 04:30:00 GMT"),
        ("range", "bytes=0-1"),
        ("origin", "https://elsewhere.example"),
        ("authorization", "Bearer nothing"),
        ("host", "elsewhere.example"),
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "gzip"),
        ("content-length", "0"),
        ("expect", "100-continue"),
        ("x-http-method-override", "DELETE"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("cookie", "a=b"),
    ] {
        all.push(vec![(name, value.to_owned())]);
    }
    all.push(vec![("host", "one.example".to_owned()), ("host", "two.example".to_owned())]);
    all.push(vec![("x-large", "a".repeat(40_000))]);
    all
}

#[tokio::test]
async fn what_is_ready_is_answered_as_the_router_answers_it() {
    let contents = ["A *first* page.".to_owned(), "[A link](https://elsewhere.example/) and words. ".repeat(30)];
    assert_answers_as_the_router(&TestApp::new(), &contents).await;
}

#[tokio::test]
async fn what_the_store_must_be_asked_for_is_answered_as_the_router_answers_it() {
    let contents = ["[A link](https://elsewhere.example/) and words. ".repeat(30), "A large *page*. ".repeat(4000)];
    assert_answers_as_the_router(&replica(&HeadsFirst::new()), &contents).await;
}

/// Fails unless the service answers every variation of a request for pages with `contents` as the router does.
async fn assert_answers_as_the_router(app: &TestApp, contents: &[String]) {
    for content in contents {
        let page = app.publish("Hello, world", content).await;
        let targets = targets(&page);
        let mut held = Vec::new();
        for target in &targets[..3] {
            for coding in ["", "gzip", "zstd"] {
                let request = || Request::get(target.as_str()).header("accept-encoding", coding);
                app.send(request()).await;
                held.push(app.send(request()).await.header("etag").to_owned());
            }
        }
        held.dedup();
        for target in &targets {
            // The header fields of a request matter only where there is a page.
            let is_of_page = targets[..5].contains(target);
            for method in ["GET", "HEAD", "OPTIONS", "PUT"] {
                let every = is_of_page && ["GET", "HEAD"].contains(&method);
                for variation in variations(&held).into_iter().take(if every { usize::MAX } else { 2 }) {
                    let request = || {
                        let request = Request::new(method, target.as_str());
                        variation.iter().fold(request, |request, (name, value)| request.header(name, value))
                    };
                    // Whether a body was compressed meanwhile is not decided here: it is another form of the same page.
                    let (ready, routed) = loop {
                        let (ready, routed) = both_ways(app, request).await;
                        if ready.headers.get("content-encoding") == routed.headers.get("content-encoding") {
                            break (ready, routed);
                        }
                    };
                    assert_same(&ready, &routed, &format!("{method} {target} {variation:?}"));
                }
            }
        }
    }
}

#[tokio::test]
async fn a_page_in_memory_that_is_not_ready_is_answered_at_once_and_as_the_router_answers_it() {
    let content = "[A link](https://elsewhere.example/) and words. ".repeat(30);
    for target in 0..3 {
        for (name, value) in
            [("accept", "*/*"), ("accept", "text/markdown"), ("accept-encoding", "zstd"), ("if-none-match", "*")]
        {
            // In a new service no page is ready.
            let app = TestApp::new();
            let page = app.publish("Hello, world", &content).await;
            let target = &targets(&page)[target];
            let request = || Request::get(target.as_str()).header(name, value);
            // Nothing waits for another thread or task, so the answer is there when it is first asked for.
            let first = app.answer_to_any(request()).now_or_never().expect("it did not wait");
            let other = TestApp::new();
            let other_page = other.publish("Hello, world", &content).await;
            let target = target.replace(&page.slug, &other_page.slug);
            let asked = routed(Request::get(target).header(name, value));
            let second = other.answer_to_any(asked).now_or_never().expect("it did not wait in the router either");
            assert_eq!(page.slug, other_page.slug);
            assert_same(&first, &second, &format!("{name}: {value}"));
            let scrape = app.metrics.exposition();
            assert!(scrape.contains("handbill_page_cache_misses_total 1\n"), "{scrape}");
            assert!(scrape.contains("handbill_page_cache_hits_total 0\n"), "{scrape}");
        }
    }
}

#[tokio::test]
async fn a_large_page_in_memory_is_looked_up_once() {
    let app = TestApp::new();
    let page = app.publish("Large", &"words ".repeat(12_000)).await;
    let read = || Request::get(format!("/api/pages/{}", page.slug));
    let answer = app.answer_to_any(read()).await;
    assert_same(&answer, &app.answer_to_any(routed(read())).await, "a large page");
    let scrape = app.metrics.exposition();
    let lookups = "handbill_store_duration_seconds_count{operation=\"lookup\",outcome=\"active\"} 2\n";
    assert!(scrape.contains(lookups), "each was looked up once: {scrape}");
}

#[tokio::test]
async fn a_read_that_is_ready_is_counted_like_any_other() {
    let app = TestApp::new();
    let page = app.published().await;
    for _ in 0..3 {
        app.read(&page.slug).await.expect_status(200);
    }
    let tag = app.read(&page.slug).await.header("etag").to_owned();
    app.send(Request::get(format!("/api/pages/{}", page.slug)).header("if-none-match", &tag)).await.expect_status(304);
    app.update(&page, json!({"title": "Other"})).await.expect_status(200);
    app.read(&page.slug).await.expect_status(200);
    let scrape = app.metrics.exposition();
    for (status, count) in [(200, 5), (304, 1)] {
        let labels = format!("http_response_status_code=\"{status}\"");
        assert_eq!(counted(&app, &labels), Some(count), "{scrape}");
    }
    assert!(scrape.contains("handbill_page_cache_hits_total 4\n"), "{scrape}");
    assert!(scrape.contains("handbill_page_cache_misses_total 2\n"), "{scrape}");
}

#[tokio::test]
async fn an_error_is_answered_as_the_router_answers_it() {
    for fault in [|| Fault::Unavailable, || Fault::Unreadable, || Fault::Panic] {
        for app in [TestApp::new(), replica(&HeadsFirst::new())] {
            let (page, gone) = (app.published().await, app.deleted().await);
            for slug in [&gone.slug, "nothing-2222bbbb", &page.slug] {
                if slug == page.slug {
                    app.store.always(Operation::Lookup, fault);
                }
                for target in [format!("/api/pages/{slug}"), format!("/{slug}"), format!("/{slug}.md")] {
                    for (method, accept) in [
                        ("GET", "*/*"),
                        ("GET", "text/html"),
                        ("GET", "text/markdown, text/html;q=0.5"),
                        ("HEAD", "*/*"),
                    ] {
                        let request = || Request::new(method, target.as_str()).header("accept", accept);
                        let (early, late) = both_ways(&app, request).await;
                        assert!(early.status >= 404, "{early:?}");
                        assert_same(&early, &late, &format!("{method} {target} {accept}"));
                    }
                }
            }
        }
    }
}

/// The line of the metrics for reads of the API that ended as `labels` say.
fn counted(app: &TestApp, labels: &str) -> Option<u64> {
    let name = "http_server_request_duration_seconds_count";
    let begin = format!(
        "{name}{{http_request_method=\"GET\",http_route=\"/api/pages/{{slug}}\",{labels},url_scheme=\"http\"}} "
    );
    app.metrics.exposition().lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok())
}

#[tokio::test]
async fn a_read_that_the_router_completes_asks_the_store_once_and_is_counted_once() {
    let store = HeadsFirst::new();
    let app = replica(&store);
    let page = app.deleted().await;
    store.take_reads();
    app.read(&page.slug).await.expect_error(410, "gone");
    assert_eq!(store.take_reads(), Reads { heads: 1, ..Reads::default() });
    assert_eq!(counted(&app, "http_response_status_code=\"410\""), Some(1));
    assert_eq!(app.metrics.active_requests.get(), 0);
}

#[tokio::test]
async fn a_read_that_its_client_gives_up_is_counted_as_abandoned() {
    let app = replica(&HeadsFirst::new());
    let page = app.published().await;
    app.store.always(Operation::Lookup, || Fault::Hang);
    let read = app.answer_to_any(Request::get(format!("/api/pages/{}", page.slug)));
    assert!(read.now_or_never().is_none());
    assert_eq!(counted(&app, "error_type=\"abandoned\""), Some(1));
    assert_eq!(app.metrics.active_requests.get(), 0);
}
