//! Deleting a page (spec §4.4).

use serde_json::json;

use crate::support::app::{Setup, TestApp};
use crate::support::exchange::Request;

#[tokio::test]
async fn a_delete_answers_204_without_a_body_and_the_page_is_gone() {
    let app = TestApp::new();
    let page = app.published().await;
    let answer = app.delete(&page).await;
    answer.expect_status(204);
    assert!(answer.body.is_empty());
    assert!(!answer.headers.contains_key("content-type"), "{answer:?}");
    app.read(&page.slug).await.expect_error(410, "gone");
}

#[tokio::test]
async fn a_second_delete_answers_410() {
    let app = TestApp::new();
    let page = app.published().await;
    app.delete(&page).await.expect_status(204);
    app.delete(&page).await.expect_error(410, "gone");
}

#[tokio::test]
async fn a_delete_needs_no_body_and_minds_none() {
    let app = TestApp::new();
    let page = app.published().await;
    app.send(Request::delete(&page.slug).key(&page.key).json("not JSON")).await.expect_status(204);
}

#[tokio::test]
async fn a_page_that_was_updated_can_be_deleted_with_the_same_key() {
    let app = TestApp::new();
    let page = app.published().await;
    app.update(&page, json!({"title": "Other", "content": "Other"})).await.expect_status(200);
    app.delete(&page).await.expect_status(204);
    app.read(&page.slug).await.expect_error(410, "gone");
}

#[tokio::test]
async fn a_delete_without_the_right_key_answers_401_and_leaves_the_page() {
    let app = TestApp::new();
    let (page, other) = (app.published().await, app.published().await);
    app.send(Request::delete(&page.slug)).await.expect_error(401, "missing_key");
    app.send(Request::delete(&page.slug).key(&other.key)).await.expect_error(401, "invalid_key");
    app.read(&page.slug).await.expect_status(200);
}

#[tokio::test]
async fn a_delete_over_the_limit_answers_429_with_retry_after_and_leaves_the_page() {
    let app = Setup::new().limits(10, 1).start();
    let page = app.published().await;
    app.update(&page, json!({})).await.expect_status(200);
    assert!(app.delete(&page).await.expect_error(429, "rate_limited").retry_after() >= 1);
    app.read(&page.slug).await.expect_status(200);
}
