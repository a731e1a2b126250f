//! The way in and out of the service: what is ready is answered at once, every answer has the common header fields,
//! and each request is counted once.

use futures_util::FutureExt;
use serde_json::json;

use crate::in_process::app::TestApp;
use crate::in_process::exchange::Request;
use crate::in_process::stores::{Fault, Operation};

#[tokio::test]
async fn a_page_that_is_ready_is_answered_at_once() {
    let content = "[A link](https://elsewhere.example/) and words. ".repeat(30);
    for target in 0..3 {
        for (name, value) in
            [("accept", "*/*"), ("accept", "text/markdown"), ("accept-encoding", "zstd"), ("if-none-match", "*")]
        {
            // In a new service no page is ready.
            let app = TestApp::new();
            let page = app.publish("Hello, world", &content).await;
            let targets =
                [format!("/api/pages/{}", page.slug), format!("/{}", page.slug), format!("/{}.md", page.slug)];
            let read = || app.send(Request::get(targets[target].as_str()).header(name, value));
            let first = read().await;
            let scrape = app.metrics.exposition();
            assert!(scrape.contains("handbill_page_cache_misses_total 1\n"), "{scrape}");
            assert!(scrape.contains("handbill_page_cache_hits_total 0\n"), "{scrape}");
            // Nothing waits for another thread or task, so the answer is there when it is first asked for.
            let second = read().now_or_never().expect("it did not wait");
            assert_eq!(first.status, second.status);
            assert!(app.metrics.exposition().contains("handbill_page_cache_hits_total 1\n"));
        }
    }
}

#[tokio::test]
async fn a_read_is_counted_once_whoever_answers_it() {
    let (app, page) = TestApp::with_page().await;
    for _ in 0..3 {
        app.read(&page.slug).await.expect_status(200);
    }
    let tag = app.read(&page.slug).await.header("etag").to_owned();
    app.send(Request::get(format!("/api/pages/{}", page.slug)).header("if-none-match", &tag)).await.expect_status(304);
    app.update(&page, json!({"title": "Other"})).await.expect_status(200);
    app.read(&page.slug).await.expect_status(200);
    app.store.always(Operation::Lookup, || Fault::Panic);
    app.read("nothing-2222bbbb").await.expect_status(500);
    let scrape = app.metrics.exposition();
    for (labels, count) in [
        ("http_response_status_code=\"200\",error_type=\"\"", 5),
        ("http_response_status_code=\"304\",error_type=\"\"", 1),
        ("http_response_status_code=\"500\",error_type=\"500\"", 1),
    ] {
        assert_eq!(counted(&app, labels), Some(count), "{scrape}");
    }
    assert!(scrape.contains("handbill_page_cache_hits_total 4\n"), "{scrape}");
    assert!(scrape.contains("handbill_page_cache_misses_total 2\n"), "{scrape}");
    assert_eq!(app.metrics.active_requests.get(), 0);
}

/// The count of reads of the API that ended as `labels` say.
fn counted(app: &TestApp, labels: &str) -> Option<u64> {
    let name = "http_server_request_duration_seconds_count";
    let begin = format!(
        "{name}{{http_request_method=\"GET\",http_route=\"/api/pages/{{slug}}\",{labels},url_scheme=\"http\"}} "
    );
    app.metrics.exposition().lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok())
}
