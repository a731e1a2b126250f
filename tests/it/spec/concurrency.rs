//! Several requests at once on one page (contract, decision 8).

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::app::{Setup, TestApp};
use crate::support::calls::Published;

/// An update of `page` by another client at another moment, which must succeed.
pub(crate) async fn update(app: TestApp, page: Published, fields: Value) {
    app.update(&page, fields).await.expect_status(200);
}

pub(crate) async fn delete(app: TestApp, page: Published) {
    app.delete(&page).await.expect_status(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_updates_of_title_and_content_at_once_none_is_lost() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    let mut updates = JoinSet::new();
    for number in 0..8 {
        updates.spawn(update(app.clone(), page.clone(), json!({"title": format!("Title {number}")})));
        updates.spawn(update(app.clone(), page.clone(), json!({"content": format!("Text {number}")})));
    }
    updates.join_all().await;
    let read = app.page(&page.slug).await;
    assert!(read["title"].as_str().unwrap().starts_with("Title "), "{read}");
    assert!(read["content"].as_str().unwrap().starts_with("Text "), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn updates_and_a_delete_at_once_end_with_a_deleted_page() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    let mut requests = JoinSet::new();
    for _ in 0..8 {
        let (app, page) = (app.clone(), page.clone());
        requests.spawn(async move {
            let status = app.update(&page, json!({"content": "new"})).await.status;
            assert!([200, 410].contains(&status), "{status}");
        });
    }
    requests.spawn(delete(app.clone(), page.clone()));
    requests.join_all().await;
    app.read(&page.slug).await.expect_error(410, "gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_hundred_creates_at_once_exactly_the_limit_is_admitted() {
    let app = TestApp::new();
    let mut creates = JoinSet::new();
    for _ in 0..100 {
        let app = app.clone();
        creates.spawn(async move { app.create(r#"{"title": "T", "content": "c"}"#).await.status });
    }
    let statuses = creates.join_all().await;
    assert_eq!(statuses.iter().filter(|&&status| status == 201).count(), 10);
    assert_eq!(statuses.iter().filter(|&&status| status == 429).count(), 90);
}
