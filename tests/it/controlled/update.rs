//! The writes of an update that changes nothing (spec §4.3).

use std::time::Duration;

use serde_json::json;

use crate::in_process::app::TestApp;

#[tokio::test]
async fn an_update_of_no_field_writes_nothing_at_whatever_time() {
    let app = TestApp::new();
    let page = app.published().await;
    let before = app.read(&page.slug).await;
    app.clock.advance(Duration::from_mins(1));
    let answer = app.update(&page, json!({})).await;
    assert_eq!(answer.expect_status(200).body, before.body);
    assert_eq!(app.store.calls().swaps, 0);
}
