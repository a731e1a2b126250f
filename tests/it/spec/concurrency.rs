//! Events between the read and the write of a request (contract, decision 8).

use std::sync::Arc;

use futures_util::future::join_all;
use handbill_pages::ports::page_store::PageStore;
use serde_json::{Value, json};

use crate::in_process::app::{Published, Setup, TestApp};
use crate::in_process::exchange::Request;
use crate::in_process::heads_first::HeadsFirst;
use crate::in_process::stores::{Fault, Operation};

/// An update of `page` by another client at another moment, which must succeed.
pub(crate) async fn update(app: TestApp, page: Published, fields: Value) {
    app.update(&page, fields).await.expect_status(200);
}

pub(crate) async fn delete(app: TestApp, page: Published) {
    app.delete(&page).await.expect_status(204);
}

fn another(app: &TestApp) -> TestApp {
    Setup::new().over_the_store_of(app).start()
}

/// Lets `other` happen between the read and the write of the next update or delete.
fn meanwhile(app: &TestApp, other: impl Future<Output = ()> + Send + 'static) {
    let same = app.clone();
    let other = async move {
        // `app` counts the writes of a request that it answers alone. Those of `other` are not its own.
        same.get("/robots.txt").await.expect_status(200);
        other.await;
    };
    app.store.next(Operation::Swap, Fault::Meanwhile(Box::pin(other)));
}

#[tokio::test]
async fn two_updates_of_different_fields_both_survive() {
    let (app, page) = TestApp::with_page().await;
    meanwhile(&app, update(another(&app), page.clone(), json!({"title": "New title"})));
    let answer = app.update(&page, json!({"content": "New text."})).await;
    answer.expect_status(200);
    assert_eq!((answer.field("title").as_str(), answer.field("content").as_str()), ("New title", "New text."));
    assert_eq!(app.page(&page.slug).await, answer.json());
}

#[tokio::test]
async fn a_lost_race_still_makes_updated_at_grow() {
    let (app, page) = TestApp::with_page().await;
    meanwhile(&app, update(another(&app), page.clone(), json!({"title": "Theirs"})));
    let mine = app.update(&page, json!({"content": "mine"})).await;
    assert_eq!(mine.field("updated_at"), "2026-11-21T04:30:00.125Z", "two changes after a creation at .123");
}

#[tokio::test]
async fn an_update_that_meets_a_delete_does_not_revive_the_page() {
    let (app, page) = TestApp::with_page().await;
    meanwhile(&app, delete(another(&app), page.clone()));
    app.update(&page, json!({"content": "back"})).await.expect_error(410, "gone");
    app.read(&page.slug).await.expect_error(410, "gone");
}

#[tokio::test]
async fn a_delete_that_meets_an_update_deletes_the_page() {
    let (app, page) = TestApp::with_page().await;
    meanwhile(&app, update(another(&app), page.clone(), json!({"content": "new"})));
    app.delete(&page).await.expect_status(204);
    app.read(&page.slug).await.expect_error(410, "gone");
}

#[tokio::test]
async fn of_two_deletes_at_once_one_answers_204_and_the_other_410() {
    let (app, page) = TestApp::with_page().await;
    meanwhile(&app, delete(another(&app), page.clone()));
    app.delete(&page).await.expect_error(410, "gone");
}

#[tokio::test]
async fn a_conditional_change_that_meets_another_answers_412() {
    for is_deletion in [false, true] {
        let (app, page) = TestApp::with_page().await;
        meanwhile(&app, update(another(&app), page.clone(), json!({"title": "Theirs"})));
        let update = Request::update(&page.slug, r#"{"content": "mine"}"#);
        let request = if is_deletion { Request::delete(&page.slug) } else { update };
        let answer = app.send(request.key(&page.key).header("if-match", &page.etag)).await;
        answer.expect_error(412, "precondition_failed");
        let read = app.page(&page.slug).await;
        assert_eq!((read["title"].as_str(), read["content"].as_str()), (Some("Theirs"), Some("A *first* page.")));
    }
}

#[tokio::test]
async fn a_lost_compare_and_set_is_tried_again_and_counted_once() {
    let (app, page) = TestApp::with_page().await;
    for _ in 0..5 {
        app.store.next(Operation::Swap, Fault::Lose);
    }
    let answer = app.update(&page, json!({"content": "at last"})).await;
    answer.expect_status(200);
    assert_eq!(app.store.calls().swaps, 6);
    assert!(answer.header("ratelimit").contains("r=59"), "{answer:?}");
    for _ in 0..5 {
        app.store.next(Operation::Swap, Fault::Lose);
    }
    app.delete(&page).await.expect_status(204);
}

#[tokio::test(start_paused = true)]
async fn forty_eight_updates_of_one_page_at_once_are_all_done() {
    let (app, page) = Setup::unlimited().over(HeadsFirst::new()).start_with_page().await;
    let (app, page) = (&app, &page);
    let updates = (0..48).map(|number| app.update(page, json!({"content": format!("text {number}")})));
    let answers = join_all(updates).await;
    for answer in &answers {
        answer.expect_status(200);
    }
    assert_eq!(app.store.calls().swaps, 48, "they take turns, so none is in vain");
    let last = answers.iter().max_by_key(|answer| answer.field("updated_at")).unwrap();
    assert_eq!(app.page(&page.slug).await, last.json(), "the last write stands");
}

#[tokio::test(start_paused = true)]
async fn writers_of_a_large_page_hold_no_more_than_readers_may() {
    let store = HeadsFirst::new();
    let app = Setup::unlimited().over(Arc::clone(&store) as Arc<dyn PageStore>).start();
    let page = app.publish("Large", &"<a@b.c>".repeat(14_000)).await;
    app.store.always(Operation::Swap, || Fault::Hang);
    let before = app.store.calls().swaps;
    let answers = join_all((0..100).map(|number| app.update(&page, json!({"title": format!("Title {number}")})))).await;
    assert!(answers.iter().all(|answer| answer.status == 503), "{answers:?}");
    // Each of them counts as two times 0.7 MB of 32 MiB.
    let begun = app.store.calls().swaps - before;
    assert!((1..=24).contains(&begun), "{begun}");
}
