//! The states of a page and what leads from one to the next (spec §3).

use std::time::Duration;

use handbill_pages::values::record::Record;
use serde_json::json;

use crate::in_process::app::TestApp;
use crate::in_process::exchange::Request;

#[tokio::test]
async fn a_deleted_page_is_410_on_every_operation_and_view() {
    let app = TestApp::new();
    let page = app.deleted().await;
    let slug = &page.slug;
    app.clock.advance(Duration::from_hours(24 * 365 * 100));
    app.read(slug).await.expect_error(410, "gone");
    app.update(&page, json!({"content": "back"})).await.expect_error(410, "gone");
    app.delete(&page).await.expect_error(410, "gone");
    app.send(Request::update(slug, "not JSON")).await.expect_error(410, "gone");
    app.send(Request::delete(slug).query("edit_key=x")).await.expect_error(410, "gone");
    app.send(Request::get(format!("/api/pages/{slug}")).header("if-none-match", "*")).await.expect_error(410, "gone");
    app.get(&format!("/{slug}")).await.expect_status(410);
    app.get(&format!("/{slug}.md")).await.expect_error(410, "gone");
    app.send(Request::new("HEAD", format!("/api/pages/{slug}"))).await.expect_status(410);
    app.send(Request::new("HEAD", format!("/{slug}"))).await.expect_status(410);
    assert!(matches!(app.stored(slug).await, Some(Record::Deleted(_))));
}

#[tokio::test]
async fn nothing_of_a_deleted_page_can_be_read() {
    let app = TestApp::new();
    let page = app.publish("Xylophone", "Quagmire").await;
    app.update(&page, json!({"content": "Quagmire and zeppelin"})).await.expect_status(200);
    app.delete(&page).await.expect_status(204);
    let slug = &page.slug;
    for target in [format!("/api/pages/{slug}"), format!("/{slug}"), format!("/{slug}.md")] {
        let answer = app.get(&target).await;
        let shown = answer.text().replace(slug.as_str(), "");
        for word in ["Xylophone", "Quagmire", "zeppelin"] {
            assert!(!shown.contains(word), "{target}: {shown}");
        }
        assert!(!answer.headers.contains_key("etag") && !answer.header("link").contains(slug), "{answer:?}");
    }
}

#[tokio::test]
async fn a_delete_answers_204_without_a_body_and_the_page_is_gone() {
    let (app, page) = TestApp::with_page().await;
    // It needs no body, and minds none.
    let answer = app.send(Request::delete(&page.slug).key(&page.key).json("not JSON")).await;
    assert!(answer.expect_status(204).body.is_empty());
    assert!(!answer.headers.contains_key("content-type"), "{answer:?}");
    app.read(&page.slug).await.expect_error(410, "gone");
}
