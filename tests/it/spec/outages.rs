//! Answers to clients when a store fails (contract, decisions 3 and 9).

use std::time::Duration;

use handbill_pages::service::STORE_BUDGET;
use serde_json::json;

use crate::in_process::app::TestApp;
use crate::in_process::exchange::Request;
use crate::in_process::stores::{Fault, Operation};

const NEW_PAGE: &str = r#"{"title": "T", "content": "c"}"#;

#[tokio::test]
async fn a_store_out_of_reach_answers_503_on_every_operation() {
    let (app, page) = TestApp::with_page().await;
    let before = app.stored(&page.slug).await;
    for operation in [Operation::Insert, Operation::Lookup, Operation::Swap] {
        app.store.always(operation, || Fault::Unavailable);
    }
    app.create(NEW_PAGE).await.expect_error(503, "unavailable");
    app.read(&page.slug).await.expect_error(503, "unavailable");
    app.update(&page, json!({"content": "new"})).await.expect_error(503, "unavailable");
    app.delete(&page).await.expect_error(503, "unavailable");
    app.get(&format!("/{}", page.slug)).await.expect_error(503, "unavailable");
    app.get(&format!("/{}.md", page.slug)).await.expect_error(503, "unavailable");
    app.store.heal();
    assert_eq!(app.stored(&page.slug).await, before);
}

#[tokio::test]
async fn a_write_that_fails_answers_503_and_changes_nothing() {
    let (app, page) = TestApp::with_page().await;
    let before = app.page(&page.slug).await;
    app.store.always(Operation::Swap, || Fault::Unavailable);
    app.update(&page, json!({"content": "new"})).await.expect_error(503, "unavailable");
    app.delete(&page).await.expect_error(503, "unavailable");
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn a_change_of_unknown_outcome_is_wholly_made_or_not_at_all() {
    let faults = [|| Fault::DoneButUnknown, || Fault::NotDoneAndUnknown];
    for (fault, expected, status) in [(faults[0], ("T", "c"), 410), (faults[1], ("Title", "Text"), 200)] {
        let app = TestApp::new();
        let page = app.publish("Title", "Text").await;
        app.store.next(Operation::Swap, fault());
        app.update(&page, json!({"title": "T", "content": "c"})).await.expect_error(503, "unavailable");
        let read = app.page(&page.slug).await;
        assert_eq!((read["title"].as_str().unwrap(), read["content"].as_str().unwrap()), expected);
        app.store.next(Operation::Swap, fault());
        app.delete(&page).await.expect_error(503, "unavailable");
        app.read(&page.slug).await.expect_status(status);
    }
}

#[tokio::test]
async fn a_create_of_unknown_outcome_is_not_tried_again() {
    for fault in [Fault::DoneButUnknown, Fault::NotDoneAndUnknown] {
        let app = TestApp::new();
        app.store.next(Operation::Insert, fault);
        app.create(NEW_PAGE).await.expect_error(503, "unavailable");
        assert_eq!(app.store.calls().inserts, 1, "a second page would have no owner either");
        app.create(NEW_PAGE).await.expect_status(201);
    }
}

#[tokio::test]
async fn a_store_that_never_answers_is_given_up_in_three_seconds() {
    let (app, page) = TestApp::with_page().await;
    let before = app.stored(&page.slug).await;
    let slug = &page.slug;
    for operation in [Operation::Insert, Operation::Lookup] {
        app.store.always(operation, || Fault::Hang);
    }
    tokio::time::pause();
    let requests = [
        Request::create(NEW_PAGE),
        Request::get(format!("/api/pages/{slug}")),
        Request::get(format!("/{slug}")),
        Request::get(format!("/{slug}.md")),
        Request::update(slug, r#"{"content": "new"}"#).key(&page.key),
        Request::delete(slug).key(&page.key),
    ];
    for request in requests {
        let began = tokio::time::Instant::now();
        app.send(request).await.expect_error(503, "unavailable");
        let took = began.elapsed();
        assert!((STORE_BUDGET..Duration::from_secs(3)).contains(&took), "{took:?}");
    }
    tokio::time::resume();
    app.store.heal();
    assert_eq!(app.stored(slug).await, before);
}

#[tokio::test]
async fn a_write_that_never_answers_is_given_up_in_three_seconds() {
    let (app, page) = TestApp::with_page().await;
    app.store.always(Operation::Lookup, || Fault::Slow(Duration::from_secs(2)));
    app.store.always(Operation::Swap, || Fault::Hang);
    tokio::time::pause();
    for request in [
        Request::update(&page.slug, r#"{"content": "new"}"#).key(&page.key),
        Request::delete(&page.slug).key(&page.key),
    ] {
        let began = tokio::time::Instant::now();
        app.send(request).await.expect_error(503, "unavailable");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
    tokio::time::resume();
    app.store.heal();
    app.update(&page, json!({"content": "again"})).await.expect_status(200);
}

#[tokio::test]
async fn a_lost_compare_and_set_is_tried_with_as_much_patience() {
    let (app, page) = TestApp::with_page().await;
    app.store.always(Operation::Lookup, || Fault::Slow(Duration::from_secs(2)));
    app.store.next(Operation::Swap, Fault::Lose);
    app.store.always(Operation::Swap, || Fault::Hang);
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    app.update(&page, json!({"content": "new"})).await.expect_error(503, "unavailable");
    let took = began.elapsed();
    assert!((Duration::from_secs(2) + STORE_BUDGET..Duration::from_secs(5)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_compare_and_set_that_is_always_lost_is_given_up() {
    let (app, page) = TestApp::with_page().await;
    let before = app.page(&page.slug).await;
    app.store.always(Operation::Swap, || Fault::Lose);
    tokio::time::pause();
    app.update(&page, json!({"content": "new"})).await.expect_error(503, "unavailable");
    app.delete(&page).await.expect_error(503, "unavailable");
    tokio::time::resume();
    app.store.heal();
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn a_page_that_the_store_cannot_read_answers_500() {
    let (app, page) = TestApp::with_page().await;
    app.store.always(Operation::Lookup, || Fault::Unreadable);
    app.read(&page.slug).await.expect_error(500, "internal");
    app.update(&page, json!({})).await.expect_error(500, "internal");
    app.get(&format!("/{}", page.slug)).await.expect_error(500, "internal");
}

#[tokio::test]
async fn a_bug_in_a_backend_answers_500_and_the_service_goes_on() {
    let (app, page) = TestApp::with_page().await;
    for operation in [Operation::Insert, Operation::Lookup] {
        app.store.always(operation, || Fault::Panic);
    }
    app.create(NEW_PAGE).await.expect_error(500, "internal");
    app.read(&page.slug).await.expect_error(500, "internal");
    app.update(&page, json!({})).await.expect_error(500, "internal");
    app.delete(&page).await.expect_error(500, "internal");
    app.get(&format!("/{}", page.slug)).await.expect_error(500, "internal");
    app.store.heal();
    app.read(&page.slug).await.expect_status(200);
    app.create(NEW_PAGE).await.expect_status(201);
}
