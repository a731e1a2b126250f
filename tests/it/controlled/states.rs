//! The store's record of pages that were deleted (spec §3).

use std::time::Duration;

use handbill_pages::ports::page_store::Lookup;
use serde_json::json;

use crate::in_process::app::TestApp;

#[tokio::test]
async fn a_deleted_page_stays_deleted_for_ever() {
    let app = TestApp::new();
    let page = app.deleted().await;
    app.clock.advance(Duration::from_hours(24 * 365 * 100));
    app.read(&page.slug).await.expect_error(410, "gone");
    app.update(&page, json!({"content": "back"})).await.expect_error(410, "gone");
    assert!(matches!(app.stored(&page.slug).await, Lookup::Deleted(_)));
}
