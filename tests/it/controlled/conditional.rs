//! Entity tags of states that only a restored backup brings about (contract, decision 8).

use std::time::Duration;

use crate::in_process::app::TestApp;
use crate::support::calls::Published;
use crate::support::exchange::Request;

/// A page at its first version after a backup was restored, and the tag that a client still holds of an earlier first
/// version. The page was written again after the restore, at another time.
async fn restored() -> (TestApp, Published, String) {
    let (before, app) = (TestApp::new(), TestApp::new());
    app.clock.advance(Duration::from_millis(1));
    // Both services draw the same slug and the same key.
    let (lost, page) = (before.published().await, app.published().await);
    assert_eq!((&lost.slug, &lost.key), (&page.slug, &page.key));
    (app, page, lost.etag)
}

#[tokio::test]
async fn the_same_version_written_at_another_time_has_another_tag() {
    let (app, page, lost) = restored().await;
    assert_ne!(page.etag, lost);
    app.send(Request::get(format!("/api/pages/{}", page.slug)).header("if-none-match", &lost)).await.expect_status(200);
}

#[tokio::test]
async fn if_match_compares_the_time_of_the_last_change_too() {
    let (app, page, lost) = restored().await;
    let before = app.page(&page.slug).await;
    let update = |tag: &str| {
        let request = Request::update(&page.slug, r#"{"content": "changed"}"#).key(&page.key);
        app.send(request.header("if-match", tag))
    };
    update(&lost).await.expect_error(412, "precondition_failed");
    let delete = Request::delete(&page.slug).key(&page.key).header("if-match", &lost);
    app.send(delete).await.expect_error(412, "precondition_failed");
    assert_eq!(app.page(&page.slug).await, before);
    update(&page.etag).await.expect_status(200);
}

#[tokio::test]
async fn if_none_match_compares_the_time_of_the_last_change_too() {
    let (app, page, lost) = restored().await;
    let update = |tag: &str| {
        let request = Request::update(&page.slug, "{}").key(&page.key);
        app.send(request.header("if-none-match", tag))
    };
    update(&lost).await.expect_status(200);
    update(&page.etag).await.expect_error(412, "precondition_failed");
}
