//! Bodies that come slowly, break off or never end (contract, decision 4).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;

use crate::sections::bodies::{MAX_BODY_BYTES, refused, service};
use crate::support::app::TestApp;
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
    app.send(Request::create(stalled())).await.fails(408, "timeout");
    app.send(Request::update(&page.slug, stalled()).key(&page.key)).await.fails(408, "timeout");
    tokio::time::resume();
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn a_body_that_is_too_large_and_never_ends_is_answered_after_two_seconds() {
    let app = TestApp::new();
    let endless = Body::from_stream(stream::unfold(0, |sent| async move {
        if sent > MAX_BODY_BYTES {
            return std::future::pending().await;
        }
        Some((Ok::<_, Infallible>(Bytes::from(vec![b' '; 1024])), sent + 1024))
    }));
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    app.send(Request::create(endless)).await.fails(413, "body_too_large");
    assert!(began.elapsed() <= Duration::from_millis(2_010), "{:?}", began.elapsed());
}

#[tokio::test]
async fn of_a_body_that_is_too_large_no_more_than_four_mebibytes_are_read() {
    let app = TestApp::new();
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    // Its end is far off, and there only so that a service that reads on is found out.
    let long = stream::iter((0..1024).map(move |_| {
        counter.fetch_add(64 * 1024, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from(vec![b' '; 64 * 1024]))
    }));
    app.send(Request::create(Body::from_stream(long))).await.fails(413, "body_too_large");
    let read = read.load(Ordering::Relaxed);
    assert!(read <= 4 * 1024 * 1024 + MAX_BODY_BYTES + 128 * 1024, "{read}");
}
