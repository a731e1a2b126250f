//! Updating a page (spec §4.3).

use std::time::Duration;

use handbill_pages::values::title::MAX_CHARS;
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::Request;

#[tokio::test]
async fn an_update_answers_200_with_the_page_as_it_then_stands() {
    let (app, page) = TestApp::with_page().await;
    let answer = app.update(&page, json!({"title": "New title", "content": "New text."})).await;
    answer.expect_status(200);
    assert_eq!((answer.field("title").as_str(), answer.field("content").as_str()), ("New title", "New text."));
    assert!(answer.field("content_html").contains("New text."));
    let read = app.read(&page.slug).await;
    assert_eq!(answer.json(), read.json());
    assert_eq!(answer.header("etag"), read.header("etag"));
}

#[tokio::test]
async fn omitted_fields_keep_their_value() {
    let app = TestApp::new();
    let page = app.publish("Title", "Text").await;
    app.update(&page, json!({"content": "Other"})).await.expect_status(200);
    assert_eq!(app.page(&page.slug).await["title"], "Title");
    app.update(&page, json!({"title": "Another"})).await.expect_status(200);
    let read = app.page(&page.slug).await;
    assert_eq!((read["title"].as_str(), read["content"].as_str()), (Some("Another"), Some("Other")));
}

#[tokio::test]
async fn edits_replace_parts_of_the_content_and_the_answer_is_the_whole_page() {
    let app = Setup::unlimited().start();
    let page = app.publish("T", "One two three.").await;
    let edits = json!([{"old": "three", "new": "3"}, {"old": "One ", "new": ""}]);
    let answer = app.update(&page, json!({"title": "New", "edits": edits})).await;
    assert_eq!((answer.field("title").as_str(), answer.field("content").as_str()), ("New", "two 3."));
    assert_eq!(answer.json(), app.page(&page.slug).await);
    for (edits, told) in [
        (
            json!([{"old": "two 3", "new": ""}, {"old": "3.", "new": ""}]),
            "`edits[0]` and `edits[1]` change the same words",
        ),
        (json!([{"old": "two", "new": "2"}, {"old": "four", "new": ""}]), "The `old` of `edits[1]` is not in"),
        (json!(null), "Send it as a list of objects with `old` and `new`"),
    ] {
        let refused = app.update(&page, json!({"edits": edits})).await;
        assert!(refused.expect_error(400, "invalid_body").field("message").contains(told), "{refused:?}");
        assert_eq!(app.page(&page.slug).await, answer.json());
    }
    let stale = Request::update(&page.slug, r#"{"edits": [{"old": "four", "new": ""}]}"#).key(&page.key);
    app.send(stale.header("if-match", "\"1-0-md-identity-1\"")).await.expect_error(412, "precondition_failed");
}

#[tokio::test]
async fn a_new_title_changes_neither_slug_nor_url() {
    let app = TestApp::new();
    let page = app.publish("Title", "Text").await;
    let before = app.page(&page.slug).await;
    let after = app.update(&page, json!({"title": "Something else"})).await.json();
    assert_eq!((&after["slug"], &after["url"]), (&before["slug"], &before["url"]));
}

#[tokio::test]
async fn a_title_that_is_null_or_shows_nothing_clears_the_title() {
    let app = TestApp::new();
    let page = app.publish("Title", "Text").await;
    for cleared in [json!(null), json!(""), json!(" \t\n\u{a0}"), json!("\u{200b}"), json!(" \u{3164}\u{fe0f} ")] {
        assert_eq!(app.update(&page, json!({"title": cleared})).await.expect_status(200).json()["title"], json!(null));
        let read = app.page(&page.slug).await;
        assert_eq!(read.get("title"), Some(&json!(null)), "it is there, as null");
        assert_eq!(read["content"], "Text");
        assert_eq!(app.update(&page, json!({"title": " Again "})).await.field("title"), "Again");
    }
}

#[tokio::test]
async fn empty_or_null_content_answers_400_and_keeps_the_page() {
    let (app, page) = TestApp::with_page().await;
    let before = app.page(&page.slug).await;
    app.update(&page, json!({"content": ""})).await.expect_error(400, "empty_content");
    app.update(&page, json!({"content": "", "title": "New"})).await.expect_error(400, "empty_content");
    let answer = app.update(&page, json!({"content": null, "title": "New"})).await;
    assert!(answer.expect_error(400, "invalid_body").field("message").contains("`content`"));
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn an_update_has_the_limits_of_a_create() {
    let (app, page) = TestApp::with_page().await;
    for (fields, status) in [
        (json!({"title": "é".repeat(MAX_CHARS + 1), "content": "new"}), 400),
        (json!({"title": "a\nb", "content": "new"}), 400),
        // A title of a refused character alone clears nothing.
        (json!({"title": "\u{200b}\u{202e}"}), 400),
        (json!({"title": "New", "content": "a".repeat(102_401)}), 413),
        (json!({"title": "é".repeat(MAX_CHARS), "content": "é".repeat(51_200)}), 200),
    ] {
        app.update(&page, fields).await.expect_status(status);
    }
    assert_eq!(app.page(&page.slug).await["content"], "é".repeat(51_200));
}

#[tokio::test]
async fn an_update_that_contains_its_own_key_or_shows_it_once_rendered_answers_400() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let before = app.page(&page.slug).await;
    let secret = page.key.strip_prefix("hbk_").unwrap();
    let (first, second) = secret.split_at(20);
    for title in [page.key.clone(), format!("my key is {}", page.key)] {
        let answer = app.update(&page, json!({"title": title, "content": "fine"})).await;
        assert!(answer.expect_error(400, "invalid_body").field("message").contains("`title`"), "{answer:?}");
    }
    for content in [
        page.key.clone(),
        format!("my key is {}, hello", page.key),
        format!("my key is hbk\\_{secret}, hello"),
        format!("h&#98;k_{secret}"),
        format!("hbk_{first}**{second}**"),
        format!("*hbk_{first}*`{second}`"),
        format!("[hbk\\_{first}](https://e.example/){second}"),
        format!("[text](https://e.example/hbk%5F{secret})"),
        format!("[text](https://e.example/#h&#98;k_{secret})"),
        format!("![hbk\\_{first}**{second}**](https://e.example/i.png)"),
        format!("![alt](https://e.example/h&#98;k_{secret}.png)"),
        format!("hbk_{first}![{second}](https://e.example/i.png)"),
        format!("hbk_{first}&shy;{second}"),
        format!("# hbk\\_{secret}"),
    ] {
        let answer = app.update(&page, json!({"content": content})).await;
        let message = answer.expect_error(400, "invalid_body").field("message");
        assert!(message.contains("`content`") && !message.contains(secret), "{message}");
    }
    assert_eq!(app.page(&page.slug).await, before);
    for harmless in [format!("hbk_{first} {second}"), format!("hbk_{first}\n\n{second}"), secret.to_owned()] {
        app.update(&page, json!({"content": harmless})).await.expect_status(200);
    }
}

#[tokio::test]
async fn an_update_of_no_field_writes_nothing_at_whatever_time() {
    let (app, page) = TestApp::with_page().await;
    let before = app.read(&page.slug).await;
    app.clock.advance(Duration::from_mins(1));
    let answer = app.update(&page, json!({})).await;
    assert_eq!(answer.expect_status(200).body, before.body);
    assert_eq!(app.store.calls().swaps, 0);
}
