//! Bodies that come slowly, break off or never end (contract, decision 4).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::in_process::app::TestApp;
use crate::spec::bodies::{MAX_BODY_BYTES, refused, service};
use crate::support::exchange::Request;

#[tokio::test]
async fn a_body_that_breaks_off_answers_400() {
    let broken = || {
        let pieces = [Ok(Bytes::from_static(b"{\"title\": ")), Err(std::io::Error::other("the client went away"))];
        Body::from_stream(stream::iter(pieces))
    };
    refused(400, "invalid_body", |request| request.body(broken())).await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_answers_408() {
    let (app, page) = service().await;
    let before = app.page(&page.slug).await;
    let stalled = || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    tokio::time::pause();
    app.send(Request::create(stalled())).await.expect_error(408, "timeout");
    app.send(Request::update(&page.slug, stalled()).key(&page.key)).await.expect_error(408, "timeout");
    tokio::time::resume();
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_at_once_and_not_read_on() {
    let app = TestApp::new();
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let endless = stream::iter(0..).map(move |_: u64| {
        counter.fetch_add(1024, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from(vec![b' '; 1024]))
    });
    app.send(Request::create(Body::from_stream(endless))).await.expect_error(413, "body_too_large");
    assert_eq!(read.load(Ordering::Relaxed), MAX_BODY_BYTES + 1024);
}

/// `text` in chunks of `bytes` bytes.
fn chunked(text: &str, bytes: usize) -> Body {
    let chunks: Vec<_> =
        text.as_bytes().chunks(bytes).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk))).collect();
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn a_body_in_thousands_of_tiny_chunks_answers_400() {
    let body = json!({"title": "T", "content": "a".repeat(102_000)}).to_string();
    for answer in refused(400, "invalid_body", |request| request.body(chunked(&body, 1))).await {
        assert!(answer.field("message").contains("32 bytes"), "{answer:?}");
    }
    refused(400, "invalid_body", |request| request.body(chunked(&body, 24))).await;
    let (app, page) = service().await;
    app.send(Request::create(chunked(&body, 32))).await.expect_status(201);
    app.send(Request::update(&page.slug, chunked(&body, 32)).key(&page.key)).await.expect_status(200);
    // A form or a keystroke at a time: a short body may come in chunks of any size.
    app.send(Request::create(chunked(r#"{"title": "T", "content": "c"}"#, 1))).await.expect_status(201);
}
