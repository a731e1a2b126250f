//! When a client may ask for a token again, and which calls of the store a request for a token makes (spec §4.5;
//! contract, decision 14).

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::stores::{Calls, Fault, Operation};
use crate::spec::token::{GRANT, post_form};
use crate::spec::token_limits::attempt_sixty_times;
use crate::support::exchange::Request;

#[tokio::test]
async fn a_client_that_waits_for_retry_after_gets_a_token_and_a_second_earlier_does_not() {
    let app = TestApp::new();
    let page = app.published().await;
    attempt_sixty_times(&app, &page).await;
    let refused = app.send(Request::token(post_form(&page))).await;
    refused.expect_error(429, "rate_limited");
    assert_eq!(refused.retry_after(), 3600);
    assert!(refused.field("message").contains("3600 seconds"), "{refused:?}");
    app.clock.advance(Duration::from_secs(3_599));
    app.send(Request::token(post_form(&page))).await.expect_status(429);
    app.clock.advance(Duration::from_secs(1));
    app.send(Request::token(post_form(&page))).await.expect_status(200);
}

#[tokio::test]
async fn every_answer_behind_the_limit_says_what_is_left_of_it() {
    let app = Setup::new().token_limit(3).start();
    let page = app.published().await;
    for (left, form) in [(2, post_form(&page)), (1, GRANT.to_owned()), (0, String::new()), (0, String::new())] {
        let answer = app.send(Request::token(form)).await;
        assert_eq!(answer.header("ratelimit"), format!(r#""token";r={left};t=3600"#), "{answer:?}");
        assert_eq!(answer.header("ratelimit-policy"), r#""token";q=3;w=3600"#, "{answer:?}");
    }
}

#[tokio::test]
async fn a_client_over_the_limit_reaches_no_store() {
    let app = Setup::new().token_limit(1).start();
    let page = app.published().await;
    app.send(Request::token(post_form(&page))).await.expect_status(200);
    let before = app.store.calls();
    for form in [" ".repeat(131_073), "scope=admin".to_owned(), post_form(&page)] {
        app.send(Request::token(form)).await.expect_error(429, "rate_limited");
    }
    assert_eq!(app.store.calls(), before);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_answers_408() {
    let app = TestApp::new();
    let stalled = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    app.send(Request::token(stalled)).await.expect_error(408, "timeout");
}

#[tokio::test]
async fn a_body_that_breaks_off_answers_400_invalid_request() {
    let app = TestApp::new();
    let broken = Body::from_stream(stream::iter([Ok(Bytes::from(GRANT)), Err(std::io::Error::other("gone"))]));
    app.send(Request::token(broken)).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn too_many_headers_a_bug_and_an_outage_are_answered_as_oauth_has_it_too() {
    let app = TestApp::new();
    let page = app.published().await;
    let request = || Request::token(post_form(&page));
    app.send(request().header("x-long", "x".repeat(40_000))).await.expect_error(431, "headers_too_large");
    app.store.next(Operation::Lookup, Fault::Panic);
    app.send(request()).await.expect_error(500, "internal");
    app.store.next(Operation::Lookup, Fault::Unavailable);
    app.send(request()).await.expect_error(503, "unavailable");
    app.send(request()).await.expect_status(200);
}

#[tokio::test]
async fn a_store_that_never_answers_is_answered_503_in_time() {
    let app = TestApp::new();
    let page = app.published().await;
    tokio::time::pause();
    app.store.next(Operation::Lookup, Fault::Hang);
    app.send(Request::token(post_form(&page))).await.expect_error(503, "unavailable");
}

#[tokio::test]
async fn a_token_is_given_without_a_write() {
    let app = TestApp::new();
    let page = app.published().await;
    let before = app.store.calls();
    app.send(Request::token(post_form(&page))).await.expect_status(200);
    assert_eq!(app.store.calls(), Calls { lookups: before.lookups + 1, ..before });
}
