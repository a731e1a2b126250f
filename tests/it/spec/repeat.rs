//! A create that is sent again with a key that the client made (contract, decision 22).

use std::sync::Arc;

use futures_util::future::join_all;
use handbill_pages::ports::page_store::{Expected, PageStore};
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::head::PageHead;
use handbill_pages::values::record::Record;
use handbill_pages::values::title::Title;
use handbill_test_support::pages::{new_key, page, with_head};
use serde_json::{Value, json};

use super::form::{field, form};
use crate::in_process::app::{Published, Setup, TestApp};
use crate::in_process::exchange::Request;
use crate::in_process::stores::{Fault, Operation};

fn body(key: &str, title: &str, content: &str) -> String {
    json!({"title": title, "content": content, "edit_key": key}).to_string()
}

/// The page that `key` was sent for.
async fn create(app: &TestApp, key: &str, title: &str, content: &str) -> (Published, Value) {
    let answer = app.create(body(key, title, content)).await;
    answer.expect_status(201);
    assert_eq!(answer.field("edit_key"), key);
    let page = Published { slug: answer.field("slug"), key: key.to_owned(), etag: answer.header("etag").to_owned() };
    (page, answer.json())
}

#[tokio::test]
async fn a_create_sent_again_with_its_key_finds_its_page() {
    let app = Setup::unlimited().start();
    let (other, key) = (Setup::unlimited().over_the_store_of(&app).start(), new_key());
    let (page, first) = create(&app, &key, "Hello, world", "Text").await;
    for replica in [&app, &other] {
        let (again, answer) = create(replica, &key, "Hello, world", "Text").await;
        assert_eq!((answer, again.etag), (first.clone(), page.etag.clone()));
    }
    let updated = app.update(&page, json!({"title": "Hello, world"})).await;
    updated.expect_status(200);
    let (again, answer) = create(&other, &key, "Hello, world", "Text").await;
    assert_eq!(answer, first);
    assert_eq!(again.etag, updated.header("etag"), "the tag is that of the page as it stands");
}

#[tokio::test]
async fn creates_with_one_key_at_the_same_time_make_one_page() {
    let app = Setup::unlimited().start();
    let (other, key) = (Setup::unlimited().over_the_store_of(&app).start(), new_key());
    let sent = (0..8).map(|number| create(if number % 2 == 0 { &app } else { &other }, &key, "T", "c"));
    let answers: Vec<_> = join_all(sent).await.into_iter().map(|(_, answer)| answer).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[tokio::test]
async fn another_title_or_content_at_the_slug_of_the_key_is_key_in_use() {
    let app = TestApp::new();
    let key = new_key();
    let (page, _) = create(&app, &key, "Questions?", "first").await;
    let before = app.page(&page.slug).await;
    for (title, content) in [("Questions?", "second"), ("Questions!", "first")] {
        let message = app.create(body(&key, title, content)).await.expect_error(400, "key_in_use").field("message");
        assert!(message.contains("exists or existed") && !message.contains(&key), "{message}");
    }
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn a_repeat_after_a_change_or_a_deletion_is_key_in_use() {
    let app = TestApp::new();
    let key = new_key();
    let (page, first) = create(&app, &key, "T", "first").await;
    app.update(&page, json!({"content": "second"})).await.expect_status(200);
    app.create(body(&key, "T", "first")).await.expect_error(400, "key_in_use");
    app.update(&page, json!({"title": "t", "content": "first"})).await.expect_status(200);
    app.create(body(&key, "T", "first")).await.expect_error(400, "key_in_use");
    app.update(&page, json!({"title": "T"})).await.expect_status(200);
    assert_eq!(create(&app, &key, "T", "first").await.1, first);
    app.delete(&page).await.expect_status(204);
    app.create(body(&key, "T", "first")).await.expect_error(400, "key_in_use");
    app.read(&page.slug).await.expect_status(410);
}

#[tokio::test]
async fn other_keys_and_other_titles_make_other_pages() {
    let app = TestApp::new();
    let (one, two) = (new_key(), new_key());
    let mut slugs = Vec::new();
    for (key, title) in [(&one, "A title"), (&two, "A title"), (&one, "Another title")] {
        slugs.push(create(&app, key, title, "c").await.0.slug);
    }
    slugs.push(app.publish("A title", "c").await.slug);
    slugs.sort();
    slugs.dedup();
    assert_eq!(slugs.len(), 4);
}

#[tokio::test]
async fn a_key_that_no_generator_made_answers_400_and_is_not_repeated() {
    let app = TestApp::new();
    let key = new_key();
    for wrong in ["", "hbk_", &key[1..], &format!("{key}A"), &key.replacen("hbk_", "HBK_", 1)] {
        let message = app.create(body(wrong, "T", "c")).await.expect_error(400, "invalid_body").field("message");
        assert!(message.contains("`edit_key` is no edit key") && !message.contains(&key[4..]), "{message}");
    }
    let placeholder = format!("hbk_{}", "a".repeat(43));
    let message = app.create(body(&placeholder, "T", "c")).await.expect_error(400, "invalid_body").field("message");
    assert!(message.contains("fewer than 20 different characters"), "{message}");
    for wrong in [json!(null), json!(7), json!([key])] {
        let sent = json!({"title": "T", "content": "c", "edit_key": wrong}).to_string();
        assert!(!app.create(sent).await.expect_error(400, "invalid_body").text().contains(&key));
    }
}

#[tokio::test]
async fn a_create_that_contains_its_own_key_answers_400() {
    let app = TestApp::new();
    let key = new_key();
    let spelt = key.replace('_', "\\_");
    for (field, title, content) in [("title", &*key, "c"), ("content", "T", &*key), ("content", "T", &*spelt)] {
        let answer = app.create(body(&key, title, content)).await;
        let message = answer.expect_error(400, "invalid_body").field("message");
        assert!(message.contains(&format!("`{field}` contains the page's own edit key")), "{message}");
    }
    create(&app, &key, "T", &new_key()).await;
}

#[tokio::test]
async fn a_repeat_counts_as_a_create_and_is_refused_over_the_limit() {
    let app = Setup::new().limits(3, 60).start();
    let key = new_key();
    let (_, first) = create(&app, &key, "T", "c").await;
    app.create(body("hbk_", "T", "c")).await.expect_error(400, "invalid_body");
    assert_eq!(create(&app, &key, "T", "c").await.1, first);
    app.create(body(&key, "T", "other")).await.expect_error(400, "key_in_use");
    app.create(body(&key, "T", "c")).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn the_form_of_the_script_takes_a_key_and_no_other_form_does() {
    let app = Setup::unlimited().start();
    let key = new_key();
    let sent = |accept: &str| {
        let parts = [field("title", "T"), field("content", "c"), field("edit_key", &key)];
        form(&parts).header("accept", accept)
    };
    let (made, again) = (app.send(sent("application/json")).await, app.send(sent("application/json")).await);
    assert_eq!(made.expect_status(201).field("edit_key"), key);
    assert_eq!(again.expect_status(201).json(), made.json());
    assert_eq!(create(&app, &key, "T", "c").await.1, made.json(), "it is the same create over JSON");
    for accept in ["text/html", "*/*"] {
        app.send(sent(accept)).await.expect_status(400);
    }
    let raw = Request::new("POST", "/").header("content-type", "text/markdown").body("# T\n\nc");
    app.send(raw.query("edit_key=x")).await.expect_status(400);
}

#[tokio::test]
async fn an_update_takes_no_new_key() {
    let (app, page) = TestApp::with_page().await;
    app.update(&page, json!({"edit_key": new_key()})).await.expect_error(400, "invalid_body");
    app.update(&page, json!({})).await.expect_status(200);
}

#[tokio::test]
async fn after_a_lost_answer_the_same_create_finds_its_page() {
    for fault in [Fault::DoneButUnknown, Fault::NotDoneAndUnknown, Fault::Unavailable] {
        let app = TestApp::new();
        let other = Setup::new().over_the_store_of(&app).start();
        let body = json!({"title": "T", "content": "c", "edit_key": new_key()}).to_string();
        app.store.next(Operation::Insert, fault);
        app.create(body.clone()).await.expect_error(503, "unavailable");
        let made = other.create(body.clone()).await;
        made.expect_status(201);
        assert_eq!(app.create(body).await.expect_status(201).json(), made.json());
    }
}

#[tokio::test]
async fn a_key_whose_slug_another_page_has_gets_the_next_one() {
    let app = TestApp::new();
    let (title, key) = (Title::parse("A title").unwrap(), new_key());
    let secret = app.store.slug_secret().await.unwrap();
    let slugs = [0, 1].map(|counter| secret.slug(&title, &EditKey::parse(&key).unwrap(), counter));
    let other = with_head(&Arc::new(page("c")), |head| PageHead { slug: slugs[0].clone(), ..head });
    app.store.put(Expected::Absent, Record::Active(other), None).await.unwrap();
    let body = json!({"title": "A title", "content": "c", "edit_key": key}).to_string();
    for _ in 0..2 {
        assert_eq!(app.create(body.clone()).await.expect_status(201).field("slug"), slugs[1].as_str());
    }
}
