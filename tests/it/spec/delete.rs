//! Deleting a page (spec §4.4).

use crate::support::app::TestApp;
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
