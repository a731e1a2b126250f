//! Hiding pages and showing them again.

use std::time::Duration;

use handbill_pages::values::record::Record;
use serde_json::{Value, json};

use super::Operated;

impl Operated {
    async fn hide(&self, slugs: &[&str]) -> Vec<Value> {
        let body = json!({"pages": slugs, "reason": "phishing", "by": "desk"});
        self.results("/hide", body).await
    }

    async fn show(&self, slugs: &[&str]) -> Vec<Value> {
        self.results("/show", json!({"pages": slugs, "by": "chief"})).await
    }
}

fn outcomes(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| result["outcome"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_hidden_page_is_deleted_to_everybody() {
    let operated = Operated::start();
    let (page, deleted) = (operated.app.published().await, operated.app.deleted().await);
    assert_eq!(outcomes(&operated.hide(&[&page.slug]).await), ["hidden"]);
    operated.assert_deleted_to_everybody(&page, &deleted).await;
    let stored = operated.app.stored(&page.slug).await;
    assert!(matches!(stored, Some(Record::Hidden(..))), "the owner's delete changed nothing");
}

#[tokio::test]
async fn a_page_that_is_shown_again_is_as_it_was_with_its_key() {
    let operated = Operated::start();
    let page = operated.app.publish("A title", "A text.").await;
    operated.app.get(&format!("/{}", page.slug)).await.expect_status(200);
    let before = operated.app.read(&page.slug).await;
    operated.hide(&[&page.slug]).await;
    operated.app.get(&format!("/{}", page.slug)).await.expect_status(410);
    assert_eq!(outcomes(&operated.show(&[&page.slug]).await), ["shown"]);
    let read = operated.app.read(&page.slug).await;
    read.expect_status(200);
    assert_eq!(read.header("etag"), before.header("etag"), "who edited it meanwhile meets no conflict");
    assert_eq!((read.field("title"), read.field("content")), ("A title".to_owned(), "A text.".to_owned()));
    operated.app.update(&page, json!({"content": "More."})).await.expect_status(200);
    operated.app.delete(&page).await.expect_status(204);
    let Some(Record::Deleted(tombstone)) = operated.app.stored(&page.slug).await else { panic!("it is deleted") };
    assert_eq!(tombstone.state, None, "its owner deleted it");
}

#[tokio::test]
async fn what_is_hidden_shown_deleted_or_absent_is_left_as_it_is() {
    let operated = Operated::start();
    let (page, deleted) = (operated.app.published().await, operated.app.deleted().await);
    let slugs = [page.slug.as_str(), &deleted.slug, "a-page-22222222", "no slug"];
    assert_eq!(outcomes(&operated.show(&slugs).await), ["already_shown", "already_deleted", "not_found", "not_a_slug"]);
    let first = operated.hide(&[&page.slug]).await[0]["detail"].clone();
    operated.app.clock.advance(Duration::from_mins(1));
    let again = operated.hide(&slugs).await;
    assert_eq!(outcomes(&again), ["already_hidden", "already_deleted", "not_found", "not_a_slug"]);
    assert_eq!(again[0]["detail"], first, "it is hidden since the first time");
}

#[tokio::test]
async fn an_inspection_says_who_hid_a_page_when_and_why() {
    let (operated, page) = Operated::with_page().await;
    let at = operated.hide(&[&page.slug]).await[0]["detail"].clone();
    let inspected = operated.inspect(&page.slug).await;
    assert_eq!((&inspected["state"], &inspected["changed_at"]), (&json!("hidden"), &at));
    assert_eq!(inspected["takedown"], json!({"reason": "phishing", "by": "desk"}));
    assert_eq!(inspected["details"]["title"], json!("Hello, world"), "there is the page");
    operated.show(&[&page.slug]).await;
    assert_eq!(operated.inspect(&page.slug).await["state"], "active");
}

#[tokio::test]
async fn an_update_that_comes_between_is_hidden_and_not_lost() {
    let (operated, page) = Operated::with_page().await;
    operated.let_the_owner_be_quicker(&page);
    assert_eq!(outcomes(&operated.hide(&[&page.slug]).await), ["hidden"]);
    operated.app.read(&page.slug).await.expect_status(410);
    operated.show(&[&page.slug]).await;
    assert_eq!(operated.app.read(&page.slug).await.field("content"), "quickly");
}

#[tokio::test]
async fn a_repeat_of_the_create_of_a_hidden_page_is_key_in_use() {
    let operated = Operated::start();
    let key = "hbk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";
    let body = json!({"title": "T", "content": "first", "edit_key": key}).to_string();
    let slug = operated.app.create(body.clone()).await.field("slug");
    operated.hide(&[&slug]).await;
    operated.app.create(body.clone()).await.expect_error(400, "key_in_use");
    operated.show(&[&slug]).await;
    assert_eq!(operated.app.create(body).await.field("slug"), slug);
}

#[tokio::test]
async fn a_hidden_page_can_be_taken_down_at_once() {
    let (operated, page) = Operated::with_page().await;
    operated.hide(&[&page.slug]).await;
    assert_eq!(operated.take_down(&[&page.slug]).await, ["taken_down"]);
    assert_eq!(outcomes(&operated.show(&[&page.slug]).await), ["already_deleted"]);
}
