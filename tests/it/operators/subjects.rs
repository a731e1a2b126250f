//! Subjects: those who share an address, as a network that the operators trust names them.

use std::time::Duration;

use handbill::api::request::subject::SubjectNames;
use http::HeaderName;
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::mcp::client::Client;
use crate::support::exchange::{Answer, Request};
use crate::support::revision::{MODERN, REVISIONS};

/// An address whose requests are believed about subjects. Its host has 3 creates for all of its addresses, and 1 for each
/// subject.
const BELIEVED: &str = "192.0.2.1";

/// Another address of that host, in another of its networks.
const ELSEWHERE: &str = "203.0.113.9";

/// The tier of a host that sends no subjects.
const SILENT: &str = "198.51.100.200";

fn app() -> TestApp {
    let names = SubjectNames { header: Some(HeaderName::from_static("x-end-user")) };
    let tiers = r#"[
        {"name": "host", "networks": ["192.0.2.0/24", "203.0.113.0/28"],
         "shared": {"create": 3, "edit": 3}, "subject": {"create": 1, "edit": 2}},
        {"name": "silent", "networks": ["198.51.100.192/26"], "shared": {"create": 3, "edit": 3}}]"#;
    Setup::new().limits(2, 2).tiers(tiers).subjects(names).start()
}

fn create(peer: &str, subjects: &[&str]) -> Request {
    let create = Request::create(json!({"title": "T", "content": "c"}).to_string()).peer(peer);
    subjects.iter().fold(create, |create, subject| create.header("X-End-User", subject))
}

fn delete(peer: &str, subject: &str) -> Request {
    Request::delete("never-was-22222222").peer(peer).header("x-end-user", subject)
}

#[tokio::test]
async fn each_subject_of_a_host_has_its_own_limit_whichever_of_its_addresses_it_comes_from() {
    let app = app();
    let created = app.send(create(BELIEVED, &["ada"])).await;
    assert!(created.expect_status(201).header("ratelimit-policy").contains("q=1;w=3600"), "{created:?}");
    app.send(create(BELIEVED, &["ada"])).await.expect_error(429, "rate_limited");
    app.send(create(ELSEWHERE, &[" ada "])).await.expect_error(429, "rate_limited");
    app.send(create(BELIEVED, &["bob"])).await.expect_status(201);
    for _ in 0..2 {
        app.send(delete(BELIEVED, "ada")).await.expect_error(404, "not_found");
    }
    app.send(delete(ELSEWHERE, "ada")).await.expect_error(429, "rate_limited");
    app.send(delete(BELIEVED, "bob")).await.expect_error(404, "not_found");
}

#[tokio::test]
async fn all_subjects_of_a_host_share_a_window_and_refused_attempts_of_one_take_nothing_from_others() {
    let app = app();
    for _ in 0..5 {
        app.send(create(BELIEVED, &["ada"])).await;
    }
    app.send(create(BELIEVED, &["bob"])).await.expect_status(201);
    app.send(create(BELIEVED, &["eve"])).await.expect_status(201);
    app.send(create(BELIEVED, &["one more"])).await.expect_error(429, "rate_limited");
    app.send(create(BELIEVED, &[])).await.expect_error(429, "rate_limited");
    app.send(create(ELSEWHERE, &["one more"])).await.expect_error(429, "rate_limited");
    app.send(create(SILENT, &["one more"])).await.expect_status(201);
}

#[tokio::test]
async fn a_window_of_a_subject_and_that_of_its_host_slide_attempt_by_attempt() {
    let app = app();
    for subject in ["ada", "bob", "eve"] {
        app.send(create(BELIEVED, &[subject])).await.expect_status(201);
        app.clock.advance(Duration::from_mins(20));
    }
    // An hour after Ada's attempt it has left both windows, and the host has room for one more.
    app.send(create(ELSEWHERE, &["bob"])).await.expect_error(429, "rate_limited");
    app.send(create(ELSEWHERE, &["ada"])).await.expect_status(201);
    let refused = app.send(create(BELIEVED, &["dan"])).await;
    assert_eq!(refused.expect_error(429, "rate_limited").header("retry-after"), "1200", "until Bob's leaves");
}

#[tokio::test]
async fn a_host_that_sends_no_subject_has_one_window_for_all_of_its_addresses() {
    let app = app();
    for (address, status) in [("198.51.100.193", 201), (SILENT, 201), (SILENT, 201), ("198.51.100.254", 429)] {
        assert_eq!(app.send(create(address, &[])).await.status, status, "{address}");
    }
    app.clock.advance(Duration::from_hours(1));
    app.send(create("198.51.100.254", &[])).await.expect_status(201);
}

#[tokio::test]
async fn a_name_that_a_stranger_sends_changes_nothing() {
    let app = app();
    for subject in ["ada", "bob"] {
        app.send(create("198.51.100.1", &[subject])).await.expect_status(201);
    }
    app.send(create("198.51.100.1", &["eve"])).await.expect_error(429, "rate_limited");
    for (subject, status) in [("ada", 201), ("ada", 201), ("ada", 201), ("bob", 429)] {
        assert_eq!(app.send(create(SILENT, &[subject])).await.status, status, "a tier without limits of subjects");
    }
}

#[tokio::test]
async fn without_exactly_one_name_a_request_counts_for_its_host_alone() {
    for names in [&[][..], &[""], &["ada", "bob"], &[&"x".repeat(257)]] {
        let app = app();
        for _ in 0..3 {
            app.send(create(BELIEVED, names)).await.expect_status(201);
        }
        app.send(create(BELIEVED, names)).await.expect_error(429, "rate_limited");
    }
}

/// Calls `create_page` with a subject in `_meta`.
async fn call(app: &TestApp, revision: &'static str, peer: &str, subject: &str) -> Answer {
    let client = Client::new(app, revision).peer(peer);
    let arguments = json!({"title": "T", "content": "c"});
    let mut message = client.message("tools/call", json!({"name": "create_page", "arguments": arguments}));
    message["params"]["_meta"]["openai/subject"] = json!(subject);
    app.send(client.carrying(&message)).await
}

#[tokio::test]
async fn a_tool_call_names_its_subject_in_its_meta_and_shares_the_limit_with_the_header() {
    for revision in REVISIONS {
        let app = app();
        let is_refused = |answer: &Answer| answer.text().contains("rate_limited");
        assert!(!is_refused(&call(&app, revision, BELIEVED, "ada").await));
        assert!(is_refused(&call(&app, revision, BELIEVED, "ada").await));
        app.send(create(BELIEVED, &["ada"])).await.expect_error(429, "rate_limited");
        assert!(!is_refused(&call(&app, revision, BELIEVED, "bob").await));
    }
    let app = app();
    for (subject, is_refused) in [("ada", false), ("bob", false), ("eve", true)] {
        let answer = call(&app, MODERN, "198.51.100.1", subject).await;
        assert_eq!(answer.text().contains("rate_limited"), is_refused, "{subject}");
    }
}
