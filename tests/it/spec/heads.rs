//! Reads over a store that other replicas write to, as a cluster's (contract, decision 8).

use std::time::Duration;

use handbill_pages::ports::page_store::{Expected, PageStore};
use handbill_pages::values::markdown::RENDERER_VERSION;
use handbill_pages::values::record::Record;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_test_support::pages::{replace, with_head};
use serde_json::json;

use super::read::written_by_an_older_renderer;
use crate::in_process::exchange::Request;
use crate::in_process::heads_first::{HeadsFirst, replica};
use crate::in_process::stores::{Fault, Operation};
use crate::spec::conditional::kept_fields;

#[tokio::test]
async fn a_304_needs_no_text_and_has_every_field_of_its_200() {
    let long = format!("[elsewhere](https://elsewhere.example) {}", "and so on ".repeat(10_000));
    for content in ["Some text.", long.as_str()] {
        let store = HeadsFirst::new();
        let (app, other) = (replica(&store), replica(&store));
        let page = app.publish("A title", content).await;
        for (target, accept) in page.representations() {
            let request = || Request::get(target.clone()).header("accept", accept);
            let full = app.send(request()).await;
            let lookups = store.lookups();
            for named in [full.header("etag"), "*"] {
                let short = other.send(request().header("if-none-match", named)).await;
                assert_eq!(kept_fields(short.expect_status(304)), kept_fields(&full), "{target} {accept}");
            }
            assert_eq!(store.lookups(), lookups, "{target} {accept}");
        }
        let stale = Request::get(format!("/{}", page.slug)).header("if-none-match", "\"1-0-html\"");
        other.send(stale).await.expect_status(200);
    }
}

#[tokio::test]
async fn a_page_of_an_older_renderer_is_rendered_before_its_304() {
    let store = HeadsFirst::new();
    let app = replica(&store);
    let slug = "old-page-2222bbbb";
    store.put(Expected::Absent, Record::Active(written_by_an_older_renderer(&app, slug)), None).await.unwrap();
    let short = app.send(Request::get(format!("/{slug}")).header("if-none-match", "*")).await;
    assert!(!short.expect_status(304).headers.contains_key("x-robots-tag"), "the old renderer's links count no more");
}

#[tokio::test]
async fn a_page_of_an_older_renderer_that_was_shown_again_is_edited_from_its_latest_head() {
    let store = HeadsFirst::new();
    let app = replica(&store);
    let page = app.published().await;
    let Some(Record::Active(current)) = app.stored(&page.slug).await else { panic!("it is there") };
    let old = with_head(&current, |mut head| {
        head.state.renderer_version = RENDERER_VERSION - 1;
        head
    });
    replace(&*store, &current.head, Record::Active(old.clone())).await;
    app.read(&page.slug).await.expect_status(200);
    // An operator's replica, whose clock is an hour ahead.
    let shown = with_head(&old, |head| head.changed(UnixMillis::new(old.head.changed_at.get() + 3_600_000)));
    replace(&*store, &old.head, Record::Active(shown.clone())).await;
    app.update(&page, json!({"title": "Another"})).await.expect_status(200);
    let Some(Record::Active(stored)) = app.stored(&page.slug).await else { panic!("it is there") };
    assert!(stored.head.changed_at > shown.head.changed_at, "{stored:?}");
}

#[tokio::test]
async fn a_page_that_changes_after_its_head_was_read_is_sent_as_it_is() {
    let store = HeadsFirst::new();
    let (app, other) = (replica(&store), replica(&store));
    let page = app.published().await;
    app.read(&page.slug).await.expect_status(200);
    other.update(&page, json!({"content": "new"})).await.expect_status(200);
    let change = {
        let (other, page) = (other.clone(), page.clone());
        async move { drop(other.update(&page, json!({"content": "changed"})).await) }
    };
    // The first call reads the head, the second the page.
    app.store.next(Operation::Lookup, Fault::Slow(Duration::ZERO));
    app.store.next(Operation::Lookup, Fault::Meanwhile(Box::pin(change)));
    assert_eq!(app.page(&page.slug).await["content"], "changed");
}
