//! The store's record of pages that were deleted or never existed (spec §3).

use std::time::Duration;

use handbill_core::ports::page_store::Lookup;
use serde_json::json;

use crate::in_process::app::TestApp;
use crate::spec::states::{NEVER_USED, edit_what_never_was};

#[tokio::test]
async fn an_attempt_on_a_slug_that_never_existed_leaves_nothing_in_the_store() {
    let app = TestApp::new();
    edit_what_never_was(&app).await;
    assert_eq!(app.stored(NEVER_USED).await, Lookup::Absent);
}

#[tokio::test]
async fn nothing_of_a_deleted_page_is_in_the_store() {
    let app = TestApp::new();
    let page = app.publish("Xylophone", "Quagmire").await;
    app.update(&page, json!({"content": "Quagmire and zeppelin"})).await.expect_status(200);
    app.delete(&page).await.expect_status(204);
    let stored = format!("{:?}", app.stored(&page.slug).await);
    assert!(!stored.contains("Xylophone") && !stored.contains("Quagmire"), "{stored}");
}

#[tokio::test]
async fn a_deleted_page_stays_deleted_for_ever() {
    let app = TestApp::new();
    let page = app.deleted().await;
    app.clock.advance(Duration::from_hours(24 * 365 * 100));
    app.read(&page.slug).await.expect_error(410, "gone");
    app.update(&page, json!({"content": "back"})).await.expect_error(410, "gone");
    assert!(matches!(app.stored(&page.slug).await, Lookup::Deleted(_)));
}
