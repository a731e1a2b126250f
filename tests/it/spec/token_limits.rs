//! The token endpoint, apart from judging a form: the order of its checks, its limit, and the answers that the layers
//! around it give in its place (contract, decision 14).

use serde_json::json;

use super::token::{GRANT, post_form};
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::Request;
use crate::in_process::stores::{Fault, Operation};

#[tokio::test]
async fn the_order_is_rate_limit_form_grant_client_scope() {
    let (app, page) = Setup::new().token_limit(5).start_with_page().await;
    let right = format!("client_id={}&client_secret={}", page.slug, page.key);
    // Each request also has every fault that is checked after its own.
    app.send(Request::token("scope=admin")).await.expect_error(400, "invalid_request");
    app.send(Request::token("grant_type=password&client_id=x&client_id=y")).await.expect_error(400, "invalid_request");
    app.send(Request::token("grant_type=password&scope=admin")).await.expect_error(400, "unsupported_grant_type");
    app.send(Request::token(format!("{GRANT}&scope=admin"))).await.expect_error(401, "invalid_client");
    app.send(Request::token(format!("{GRANT}&{right}&scope=admin"))).await.expect_error(400, "invalid_scope");
    app.send(Request::token(" ".repeat(131_073))).await.expect_error(429, "rate_limited");
    app.send(Request::token("scope=admin")).await.expect_error(429, "rate_limited");
    app.send(Request::token(post_form(&page))).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn sixty_attempts_an_hour_are_admitted_and_no_more() {
    let (app, page) = TestApp::with_page().await;
    for _ in 0..20 {
        app.send(Request::token(post_form(&page))).await.expect_status(200);
        app.send(Request::token(GRANT)).await.expect_status(401);
        app.send(Request::token("")).await.expect_status(400);
    }
    app.send(Request::token(post_form(&page))).await.expect_error(429, "rate_limited");
    app.send(Request::token(post_form(&page)).peer("192.0.2.9")).await.expect_status(200);
}

#[tokio::test]
async fn tokens_have_a_window_of_their_own() {
    let (app, page) = Setup::new().limits(1, 1).token_limit(1).start_with_page().await;
    app.update(&page, json!({})).await.expect_status(200);
    app.send(Request::token(post_form(&page))).await.expect_status(200);
    app.send(Request::token(post_form(&page))).await.expect_status(429);
    let (app, page) = Setup::new().token_limit(1).start_with_page().await;
    app.send(Request::token("")).await.expect_status(400);
    app.send(Request::token("")).await.expect_status(429);
    app.update(&page, json!({})).await.expect_status(200);
    app.published().await;
}

#[tokio::test]
async fn a_body_of_over_128_kib_answers_413() {
    let (app, page) = TestApp::with_page().await;
    let form = |bytes: usize| {
        let form = format!("{}&x=", post_form(&page));
        format!("{form}{}", "x".repeat(bytes - form.len()))
    };
    app.send(Request::token(form(131_072))).await.expect_status(200);
    app.send(Request::token(form(131_073))).await.expect_error(413, "body_too_large");
}

#[tokio::test]
async fn every_answer_behind_the_limit_says_what_is_left_of_it() {
    let (app, page) = Setup::new().token_limit(3).start_with_page().await;
    for (left, form) in [(2, post_form(&page)), (1, GRANT.to_owned()), (0, String::new()), (0, String::new())] {
        let answer = app.send(Request::token(form)).await;
        assert_eq!(answer.header("ratelimit"), format!(r#""token";r={left};t=3600"#), "{answer:?}");
        assert_eq!(answer.header("ratelimit-policy"), r#""token";q=3;w=3600"#, "{answer:?}");
    }
}

#[tokio::test]
async fn headers_a_bug_and_an_outage_are_answered_as_oauth_has_it() {
    let (app, page) = TestApp::with_page().await;
    let request = || Request::token(post_form(&page));
    app.send(request().header("x-long", "x".repeat(40_000))).await.expect_error(431, "headers_too_large");
    app.store.next(Operation::Lookup, Fault::Panic);
    app.send(request()).await.expect_error(500, "internal");
    app.store.next(Operation::Lookup, Fault::Unavailable);
    app.send(request()).await.expect_error(503, "unavailable");
    app.send(request()).await.expect_status(200);
}
