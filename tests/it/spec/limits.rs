//! How often each client may create and edit (spec §8; contract, decision 10).

use std::time::Duration;

use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::{Answer, NEVER_USED, Request};

pub(crate) fn create() -> Request {
    Request::create(r#"{"title": "T", "content": "c"}"#)
}

/// The number after `name=` in a structured field.
pub(crate) fn parameter(answer: &Answer, field: &str, name: &str) -> u64 {
    let parameters = answer.header(field).split(';').filter_map(|part| part.split_once('='));
    parameters.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.parse().unwrap()).next().unwrap()
}

/// The quota and the seconds of its window.
fn policy(answer: &Answer) -> (u64, u64) {
    (parameter(answer, "ratelimit-policy", "q"), parameter(answer, "ratelimit-policy", "w"))
}

#[tokio::test]
async fn sixty_updates_and_deletes_an_hour_are_admitted_together() {
    let (app, page) = TestApp::with_page().await;
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
async fn limited_answers_say_the_policy_and_what_is_left_of_it() {
    let app = TestApp::new();
    let created = app.send(create()).await;
    assert_eq!(policy(&created), (10, 3600));
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
        assert_eq!(policy(&answer), (60, 3600));
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
async fn without_trusted_proxies_no_forwarding_header_is_believed() {
    let app = Setup::new().limits(1, 60).start();
    app.send(create()).await.expect_status(201);
    app.send(create().header("x-forwarded-for", "198.51.100.7")).await.expect_status(429);
    app.send(create().header("forwarded", "for=198.51.100.7")).await.expect_status(429);
    app.send(create().header("x-real-ip", "198.51.100.7")).await.expect_status(429);
    let app = Setup::new().limits(1, 60).trusted_proxies(&["10.0.0.0/8"]).start();
    app.send(create().peer("10.0.0.1")).await.expect_status(201);
    app.send(create().peer("10.0.0.1").header("forwarded", "for=198.51.100.7")).await.expect_status(429);
}

#[tokio::test]
async fn creates_and_edits_have_windows_of_their_own_that_pass() {
    let (app, page) = Setup::new().limits(1, 1).start_with_page().await;
    app.send(create()).await.expect_status(429);
    app.update(&page, json!({})).await.expect_status(200);
    app.update(&page, json!({})).await.expect_status(429);
    app.clock.advance(Duration::from_hours(1));
    app.send(create()).await.expect_status(201);
}

#[tokio::test]
async fn a_client_that_waits_for_retry_after_gets_through() {
    let (app, page) = TestApp::with_page().await;
    app.clock.advance(Duration::from_millis(1_500));
    for _ in 0..9 {
        app.send(create()).await.expect_status(201);
    }
    for _ in 0..60 {
        app.update(&page, json!({})).await.expect_status(200);
    }
    app.clock.advance(Duration::from_millis(700));
    // 2.2 s after the first create, 0.7 s after the first update.
    let (creating, editing) = (app.send(create()).await, app.update(&page, json!({})).await);
    assert_eq!((creating.retry_after(), editing.retry_after()), (3598, 3600));

    app.clock.advance(Duration::from_secs(3597));
    app.send(create()).await.expect_status(429);
    app.clock.advance(Duration::from_secs(1));
    app.send(create()).await.expect_status(201);
    app.send(create()).await.expect_status(429);
    app.clock.advance(Duration::from_secs(1));
    app.update(&page, json!({})).await.expect_status(429);
    app.clock.advance(Duration::from_secs(1));
    app.update(&page, json!({})).await.expect_status(200);
}

#[tokio::test]
async fn a_refusal_says_that_nothing_is_left_and_for_how_long() {
    let app = Setup::new().limits(1, 60).start();
    app.send(create()).await.expect_status(201);
    app.clock.advance(Duration::from_mins(10));
    let refused = app.send(create()).await;
    assert_eq!(parameter(&refused, "ratelimit", "r"), 0);
    assert_eq!(parameter(&refused, "ratelimit", "t"), 3000);
    assert_eq!(refused.retry_after(), 3000);
}

#[tokio::test]
async fn the_clients_of_a_limit_network_share_its_window() {
    let app = Setup::new().limits(2, 1).limit_networks(&["192.0.2.0/24=3", "2001:db8::/32=2"]).start();
    for _ in 0..5 {
        app.send(create().peer("192.0.2.1")).await.expect_status(201);
    }
    let last = app.send(create().peer("::ffff:192.0.2.2")).await;
    assert_eq!((policy(last.expect_status(201)).0, parameter(&last, "ratelimit", "r")), (6, 0));
    let full = app.send(create().peer("192.0.2.3")).await;
    let told = "Limit reached: 6 new pages per hour, for all clients of your network together. ";
    assert!(full.expect_status(429).field("message").starts_with(told), "{full:?}");
    for status in [201, 201, 429] {
        let own = app.send(create().peer("192.0.3.1")).await;
        assert!(!own.expect_status(status).text().contains("together"), "{own:?}");
    }
    // Edits have a window of their own, as elsewhere.
    for status in [404, 404, 429] {
        app.send(Request::delete("never-was-22222222").peer("2001:db8::1")).await.expect_status(status);
    }
}

/// Fails unless, behind proxies in 10.0.0.0/8, a request with this header line is counted as one from `client`.
async fn counted_as(line: impl AsRef<[u8]>, client: &str) {
    let app = Setup::new().limits(1, 60).trusted_proxies(&["10.0.0.0/8"]).start();
    app.send(create().peer(client)).await.expect_status(201);
    let request = create().peer("10.0.0.1").header("x-forwarded-for", line.as_ref());
    assert_eq!(app.send(request).await.status, 429, "{} should be {client}", line.as_ref().escape_ascii());
}

#[tokio::test]
async fn behind_a_trusted_proxy_its_client_is_the_last_address() {
    // The unit tests of `client_addr` have more forms of an address.
    counted_as("203.0.113.9, 198.51.100.7:4711, 10.0.0.2, 10.1.2.3", "198.51.100.7").await;
    counted_as("10.0.0.9, 10.0.0.2", "10.0.0.9").await;
    counted_as("[2001:db8::7]:4711", "2001:db8::9").await;
    counted_as(b"203.0.113.9\xff, 198.51.100.7", "198.51.100.7").await;
    // An entry that cannot be read ends the walk at the last proxy.
    counted_as("198.51.100.7, unknown, 10.0.0.2", "10.0.0.2").await;
    counted_as(b"203.0.113.9, 198.51.100.7\xff", "10.0.0.1").await;
    counted_as("", "10.0.0.1").await;
    counted_as("198.51.100.7,", "10.0.0.1").await;
}

#[tokio::test]
async fn a_wall_clock_that_goes_back_refuses_nobody_longer() {
    let app = Setup::new().limits(1, 60).start();
    app.send(create()).await.expect_status(201);
    app.clock.set_back(Duration::from_hours(24));
    app.clock.advance(Duration::from_hours(1));
    app.send(create()).await.expect_status(201);
}
