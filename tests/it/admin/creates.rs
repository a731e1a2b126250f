//! Pausing creates, and the blocklist.

use handbill_pages::service::PublishingPolicy;
use handbill_pages::values::blocklist::{Blocklist, entry_of};
use handbill_test_support::pages::new_key;
use prometheus_client::metrics::family::Family;
use serde_json::json;

use super::Operated;
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::{Answer, Request};
use crate::in_process::stores::Calls;
use crate::mcp::client::Client;
use crate::mcp::client::MODERN;

const SPAM: &str = "Buy cheap watches today, the best prices in town, call us!";

fn body(content: &str) -> String {
    json!({"title": "Hello", "content": content}).to_string()
}

/// A service whose blocklist has `lines`, and the policy that its operators change.
fn with_blocklist(setup: Setup, lines: &str) -> (TestApp, PublishingPolicy) {
    let policy = PublishingPolicy::default();
    policy.refuse(Blocklist::parse(lines, &[]).unwrap());
    (setup.policy(policy.clone()).start(), policy)
}

#[track_caller]
fn expect_refused(answer: &Answer) {
    answer.expect_error(400, "content_refused");
    assert!(!answer.text().contains("spam.example"), "it does not say which entry: {answer:?}");
}

#[tokio::test]
async fn a_page_with_a_listed_host_or_text_is_not_published() {
    let list = format!("spam.example\n{}\n", entry_of(SPAM));
    let (app, _) = with_blocklist(Setup::unlimited(), &list);
    for content in ["[x](https://www.spam.example/y)", "![](https://spam.example/i.png)", SPAM] {
        expect_refused(&app.create(body(content)).await);
    }
    assert_eq!(app.store.calls(), Calls::default(), "the store was not even asked");
    app.create(body("[x](https://fine.example/)")).await.expect_status(201);
}

#[tokio::test]
async fn an_update_with_listed_content_leaves_the_page_as_it_is() {
    let (app, _) = with_blocklist(Setup::unlimited(), "spam.example");
    let page = app.published().await;
    expect_refused(&app.update(&page, json!({"content": "[x](mailto:a@spam.example)"})).await);
    expect_refused(&app.update(&page, json!({"title": "New", "content": "http://spam.example/"})).await);
    assert_eq!(app.page(&page.slug).await["title"], "Hello, world");
    app.update(&page, json!({"content": "http://fine.example/"})).await.expect_status(200);
}

#[tokio::test]
async fn refused_content_counts_as_an_attempt() {
    let (app, _) = with_blocklist(Setup::new().limits(2, 2), "spam.example");
    let page = app.published().await;
    expect_refused(&app.create(body("http://spam.example/")).await);
    app.create(body("fine")).await.expect_error(429, "rate_limited");
    for _ in 0..2 {
        expect_refused(&app.update(&page, json!({"content": "http://spam.example/"})).await);
    }
    app.update(&page, json!({"content": "fine"})).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn the_key_is_checked_before_the_content() {
    let (app, _) = with_blocklist(Setup::unlimited(), "spam.example");
    let page = app.published().await;
    let update = Request::update(&page.slug, json!({"content": "http://spam.example/"}).to_string());
    app.send(update).await.expect_error(401, "missing_key");
}

#[tokio::test]
async fn a_list_that_changes_counts_from_the_next_request_on() {
    let (app, policy) = with_blocklist(Setup::unlimited(), "");
    let page = app.publish("Hello", "http://later.example/").await;
    policy.refuse(Blocklist::parse("later.example", &[]).unwrap());
    expect_refused(&app.create(body("http://later.example/")).await);
    app.read(&page.slug).await.expect_status(200);
    app.update(&page, json!({"title": "Other"})).await.expect_status(200);
    policy.refuse(Blocklist::default());
    app.create(body("http://later.example/")).await.expect_status(201);
}

#[tokio::test]
async fn while_creates_are_paused_nothing_is_published() {
    let (operated, page) = Operated::with_page().await;
    let repeated = json!({"title": "Hello", "content": "text", "edit_key": new_key()}).to_string();
    operated.app.create(repeated.clone()).await.expect_status(201);
    operated.pause(true).await;
    for sent in [body("text"), repeated] {
        let refused = operated.app.create(sent).await;
        refused.expect_error(503, "unavailable");
        assert_eq!(refused.header("retry-after"), "300");
    }
    let arguments = json!({"title": "Hello", "content": "text"});
    let refused = Client::new(&operated.app, MODERN).call("create_page", arguments).await;
    assert_eq!(refused.expect_error(503, "unavailable").retry_after, 300);
    operated.app.read(&page.slug).await.expect_status(200);
    operated.app.update(&page, json!({"content": "new"})).await.expect_status(200);
    operated.app.delete(&page).await.expect_status(204);

    operated.pause(false).await;
    operated.app.create(body("text")).await.expect_status(201);
}

/// Operators may have paused creates, and a process that starts does not know yet.
#[tokio::test]
async fn nothing_is_created_until_the_switch_was_read_once() {
    let policy = PublishingPolicy::unknown(Family::default());
    let app = Setup::new().policy(policy.clone()).start();
    let refused = app.create(body("text")).await;
    refused.expect_error(503, "unavailable");
    assert!(refused.field("message").contains("Nothing was changed"), "{refused:?}");
    policy.set_paused(false);
    app.create(body("text")).await.expect_status(201);
}

#[tokio::test]
async fn a_change_that_makes_no_sense_changes_nothing() {
    let operated = Operated::start();
    for wrong in [json!({"paused": true}), json!({"paused": true, "by": ""}), json!({"paused": "yes", "by": "desk"})] {
        operated.ask("POST", "/creates", &wrong).await.expect(400);
        operated.app.create(body("text")).await.expect_status(201);
    }
}
