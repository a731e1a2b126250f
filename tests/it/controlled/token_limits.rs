//! What a request for a token is told of its limit, and errors of the service (spec §4.5; contract, decision 14).

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::stores::{Fault, Operation};
use crate::spec::token::{GRANT, post_form};
use crate::support::exchange::Request;

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
async fn headers_a_bug_and_an_outage_are_answered_as_oauth_has_it() {
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
