//! How often each client may create and edit (spec §8; contract, decision 10).

use serde_json::json;

use crate::support::app::{Setup, TestApp};
use crate::support::exchange::{Answer, Request};

const NEVER_USED: &str = "never-was-2222bbbb";

pub(crate) fn create() -> Request {
    Request::create(r#"{"title": "T", "content": "c"}"#)
}

/// The number after `name=` in a structured field.
pub(crate) fn parameter(answer: &Answer, field: &str, name: &str) -> u64 {
    let parameters = answer.header(field).split(';').filter_map(|part| part.split_once('='));
    parameters.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.parse().unwrap()).next().unwrap()
}

#[tokio::test]
async fn ten_creates_an_hour_are_admitted_and_the_eleventh_is_not() {
    let app = TestApp::new();
    for _ in 0..10 {
        app.send(create()).await.expect_status(201);
    }
    app.send(create()).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn sixty_updates_and_deletes_an_hour_are_admitted_together() {
    let app = TestApp::new();
    let page = app.published().await;
    for _ in 0..30 {
        app.update(&page, json!({})).await.expect_status(200);
        app.send(Request::delete(&page.slug)).await.expect_status(401);
    }
    app.update(&page, json!({})).await.expect_error(429, "rate_limited");
    app.delete(&page).await.expect_error(429, "rate_limited");
    app.read(&page.slug).await.expect_status(200);
}

#[tokio::test]
async fn every_attempt_to_update_or_delete_is_counted() {
    let app = Setup::new().limits(10, 12).start();
    let deleted = app.deleted().await;
    let page = app.published().await;
    let (slug, key) = (&page.slug, &page.key);
    let stale = "\"9-json-1\"";
    let attempts = [
        Request::update(slug, "{}").key(key),
        Request::update(slug, "nonsense").key(key),
        Request::update(slug, " ".repeat(131_073)).key(key),
        Request::update(slug, "{}").key(key).header("if-match", stale),
        Request::update(slug, "{}"),
        Request::update(slug, "{}").key("wrong"),
        Request::update(slug, "{}").key(key).query("key=x"),
        Request::update(&deleted.slug, "{}").key(key),
        Request::update(NEVER_USED, "{}").key(key),
        Request::delete(NEVER_USED).key(key),
        Request::delete(slug).key(key).header("if-match", stale),
    ];
    for attempt in attempts {
        assert_ne!(app.send(attempt).await.status, 429);
    }
    app.update(&page, json!({})).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn a_malformed_slug_is_not_counted() {
    let app = Setup::new().limits(10, 1).start();
    let page = app.published().await;
    for request in [Request::update("no_slug", "{}"), Request::delete("no_slug"), Request::delete("%zz")] {
        let answer = app.send(request.key(&page.key)).await;
        answer.expect_error(404, "not_found");
        assert!(!answer.headers.contains_key("ratelimit"), "{answer:?}");
    }
    app.update(&page, json!({})).await.expect_status(200);
}

#[tokio::test]
async fn limited_answers_say_the_policy_and_what_is_left_of_it() {
    let app = TestApp::new();
    let created = app.send(create()).await;
    assert_eq!(
        (parameter(&created, "ratelimit-policy", "q"), parameter(&created, "ratelimit-policy", "w")),
        (10, 3600)
    );
    assert_eq!(parameter(&created, "ratelimit", "r"), 9);
    let created = app.send(create()).await;
    assert_eq!(parameter(&created, "ratelimit", "r"), 8);

    let page = app.published().await;
    assert_eq!(created.header("ratelimit").split(';').next(), created.header("ratelimit-policy").split(';').next());
    for (expected, answer) in [
        (59, app.update(&page, json!({})).await),
        (58, app.send(Request::update(&page.slug, "{}")).await),
        (57, app.send(Request::delete(NEVER_USED)).await),
        (56, app.delete(&page).await),
        (55, app.delete(&page).await),
    ] {
        assert_eq!(parameter(&answer, "ratelimit", "r"), expected, "{answer:?}");
        assert_ne!(answer.header("ratelimit").split(';').next(), created.header("ratelimit").split(';').next());
        assert_eq!(
            (parameter(&answer, "ratelimit-policy", "q"), parameter(&answer, "ratelimit-policy", "w")),
            (60, 3600)
        );
    }
}

#[tokio::test]
async fn one_limit_can_be_off_and_the_other_on() {
    let app = Setup::new().limits(0, 1).start();
    for _ in 0..11 {
        let created = app.send(create()).await;
        assert!(!created.expect_status(201).headers.contains_key("ratelimit"), "{created:?}");
    }
    app.send(Request::delete(NEVER_USED)).await.expect_status(404);
    app.send(Request::delete(NEVER_USED)).await.expect_status(429);
}

#[tokio::test]
async fn each_ipv4_address_is_a_client_of_its_own() {
    let app = Setup::new().limits(1, 60).start();
    app.send(create().peer("192.0.2.1")).await.expect_status(201);
    app.send(create().peer("192.0.2.2")).await.expect_status(201);
    app.send(create().peer("192.0.2.1")).await.expect_status(429);
}

#[tokio::test]
async fn without_trusted_proxies_no_forwarding_header_is_believed() {
    let app = Setup::new().limits(1, 60).start();
    app.send(create()).await.expect_status(201);
    app.send(create().header("x-forwarded-for", "198.51.100.7")).await.expect_status(429);
    app.send(create().header("forwarded", "for=198.51.100.7")).await.expect_status(429);
    app.send(create().header("x-real-ip", "198.51.100.7")).await.expect_status(429);
}
