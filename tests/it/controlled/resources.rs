//! The fields of a page that follow from time, chance and the service's own address (spec §2).

use std::time::Duration;

use serde_json::json;

use crate::in_process::app::{Setup, TestApp};

#[tokio::test]
async fn the_url_is_made_when_the_page_is_served() {
    let before = TestApp::new();
    let page = before.published().await;
    let after = Setup::new().base_url("https://moved.example").over_the_store_of(&before).start();
    assert_eq!(after.page(&page.slug).await["url"], format!("https://moved.example/{}", page.slug));
}

#[tokio::test]
async fn a_key_does_not_expire() {
    let app = TestApp::new();
    let page = app.published().await;
    app.clock.advance(Duration::from_hours(24 * 365 * 10));
    app.update(&page, json!({"title": "Ten years later"})).await.expect_status(200);
}

#[tokio::test]
async fn timestamps_are_utc_with_three_decimals() {
    let app = TestApp::new();
    let created = app.create(json!({"title": "T", "content": "c"}).to_string()).await;
    assert_eq!(created.field("created_at"), "2026-11-21T04:30:00.123Z");
    let page = app.page(&created.field("slug")).await;
    assert_eq!(page["created_at"], "2026-11-21T04:30:00.123Z");

    // A whole second has its decimals too.
    app.clock.advance(Duration::from_millis(877));
    let created = app.create(json!({"title": "T", "content": "c"}).to_string()).await;
    assert_eq!(created.field("created_at"), "2026-11-21T04:30:01.000Z");
}

#[tokio::test]
async fn updated_at_is_the_time_of_the_last_change() {
    let app = TestApp::new();
    let page = app.published().await;
    app.clock.advance(Duration::from_mins(1));
    let updated = app.update(&page, json!({"title": "Other"})).await.json();
    assert_eq!(updated["created_at"], "2026-11-21T04:30:00.123Z");
    assert_eq!(updated["updated_at"], "2026-11-21T04:31:00.123Z");
    assert_eq!(app.page(&page.slug).await, updated);
}

#[tokio::test]
async fn updated_at_grows_with_each_change_while_the_clock_goes_back() {
    let app = TestApp::new();
    let page = app.published().await;
    app.clock.set_back(Duration::from_hours(5));
    let first = app.update(&page, json!({"content": "a"})).await.field("updated_at");
    app.clock.set_back(Duration::from_hours(5));
    let second = app.update(&page, json!({"content": "b"})).await.field("updated_at");
    assert!("2026-11-21T04:30:00.123Z" < first.as_str() && first < second, "{first}, {second}");
}

#[tokio::test]
async fn a_slug_that_a_live_page_has_is_given_to_no_other() {
    let app = TestApp::new();
    let first = app.publish("Same", "first").await;
    app.random().rewind();
    let second = app.publish("Same", "second").await;
    assert_eq!(app.store.calls().inserts, 3, "the second create met the first one's slug");
    assert_ne!(first.slug, second.slug);
    assert_eq!(app.page(&first.slug).await["content"], "first");
    assert_eq!(app.page(&second.slug).await["content"], "second");
}

#[tokio::test]
async fn a_slug_that_a_deleted_page_had_is_given_to_no_other() {
    let app = TestApp::new();
    let first = app.publish("Same", "first").await;
    app.delete(&first).await.expect_status(204);
    app.random().rewind();
    let second = app.publish("Same", "second").await;
    assert_eq!(app.store.calls().inserts, 3, "the second create met the first one's slug");
    assert_ne!(first.slug, second.slug);
    app.read(&first.slug).await.expect_error(410, "gone");
}

#[tokio::test]
async fn without_a_free_slug_nothing_is_published() {
    let app = TestApp::new();
    app.random().stick();
    let first = app.publish("Same", "first").await;
    app.create(json!({"title": "Same", "content": "second"}).to_string()).await.expect_error(503, "unavailable");
    assert_eq!(app.page(&first.slug).await["content"], "first");
}
