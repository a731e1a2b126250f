//! The states of a page and what leads from one to the next (spec §3).

use serde_json::json;

use crate::support::app::TestApp;
use crate::support::exchange::Request;

const NEVER_USED: &str = "never-was-2222bbbb";

#[tokio::test]
async fn a_slug_that_never_existed_is_404_on_every_operation() {
    let app = TestApp::new();
    let key = app.published().await.key;
    app.read(NEVER_USED).await.expect_error(404, "not_found");
    app.send(Request::update(NEVER_USED, "{}").key(&key)).await.expect_error(404, "not_found");
    app.send(Request::delete(NEVER_USED).key(&key)).await.expect_error(404, "not_found");
    app.get(&format!("/{NEVER_USED}")).await.expect_status(404);
    app.get(&format!("/{NEVER_USED}.md")).await.expect_error(404, "not_found");
}

#[tokio::test]
async fn an_attempt_brings_no_slug_into_being() {
    let app = TestApp::new();
    let key = app.published().await.key;
    app.send(Request::update(NEVER_USED, r#"{"content": "x"}"#).key(&key)).await.expect_status(404);
    app.send(Request::delete(NEVER_USED).key(&key)).await.expect_status(404);
    app.read(NEVER_USED).await.expect_error(404, "not_found");
}

#[tokio::test]
async fn a_deleted_page_is_410_on_every_operation_and_view() {
    let app = TestApp::new();
    let page = app.deleted().await;
    let slug = &page.slug;
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
        // The slug itself stays known.
        let shown = answer.text().replace(slug.as_str(), "");
        for word in ["Xylophone", "Quagmire", "zeppelin"] {
            assert!(!shown.contains(word), "{target}: {shown}");
        }
        assert!(!answer.headers.contains_key("etag") && !answer.header("link").contains(slug), "{answer:?}");
    }
}
