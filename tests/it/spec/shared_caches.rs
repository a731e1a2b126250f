//! The header fields that shared caches read (contract, decision 21).

use serde_json::json;

use crate::support::app::TestApp;
use crate::support::exchange::Request;

#[tokio::test]
async fn every_representation_of_a_page_names_it_as_its_group_on_a_304_too() {
    let app = TestApp::new();
    let page = app.published().await;
    for (target, accept) in [
        (format!("/{}", page.slug), "text/html"),
        (format!("/{}", page.slug), "text/markdown"),
        (format!("/{}.md", page.slug), "*/*"),
        (format!("/api/pages/{}", page.slug), "*/*"),
    ] {
        let answer = app.send(Request::get(&target).header("accept", accept)).await;
        let tag = answer.expect_status(200).header("etag");
        let again = Request::get(&target).header("accept", accept).header("if-none-match", tag);
        let unchanged = app.send(again).await;
        unchanged.expect_status(304);
        for answer in [&answer, &unchanged] {
            assert_eq!(answer.header("cache-groups"), format!("\"{}\"", page.slug), "{target}");
            assert_eq!(answer.header("surrogate-key"), page.slug, "{target}");
            assert_eq!(answer.header("cache-tag"), page.slug, "{target}");
        }
    }
}

#[tokio::test]
async fn the_answer_to_a_change_or_deletion_names_the_group_that_is_out_of_date() {
    let app = TestApp::new();
    let page = app.published().await;
    let group = format!("\"{}\"", page.slug);
    let refused = app.send(Request::update(&page.slug, "{}")).await;
    assert!(!refused.expect_status(401).headers.contains_key("cache-group-invalidation"));
    let updated = app.update(&page, json!({"content": "new"})).await;
    assert_eq!(updated.expect_status(200).header("cache-group-invalidation"), group);
    let deleted = app.delete(&page).await;
    assert_eq!(deleted.expect_status(204).header("cache-group-invalidation"), group);
}

#[tokio::test]
async fn unless_operators_allow_it_no_shared_cache_may_show_a_page_unasked() {
    let app = TestApp::new();
    let page = app.published().await;
    for target in [format!("/{}", page.slug), format!("/{}.md", page.slug), format!("/api/pages/{}", page.slug)] {
        let answer = app.get(&target).await;
        assert_eq!(answer.expect_status(200).header("cache-control"), "no-cache");
        for field in ["cdn-cache-control", "surrogate-control", "expires", "x-accel-expires"] {
            assert!(!answer.headers.contains_key(field), "{field} at {target}");
        }
    }
}
