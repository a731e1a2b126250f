//! Content codings (contract, decision 8; RFC 9110 §12.5.3).

use std::time::{Duration, Instant};

use handbill::http::metadata::path;
use serde_json::json;

use crate::in_process::app::{Published, TestApp};
use crate::in_process::exchange::{Answer, Request};

/// Bodies are compressed off the request. If one is not there after this time, it never will be.
const MAX_WAIT: Duration = Duration::from_mins(1);

async fn page(app: &TestApp) -> Published {
    app.publish("Hello, world", &"Some *words* of text. ".repeat(40)).await
}

const DOCUMENTS: [&str; 7] =
    ["/", path::OPENAPI, path::LLMS, path::AGENT_CARD, path::SERVER_CARD, path::ICON, "/assets/0/editor.js"];

fn asking(target: &str, accept: &str, codings: &str) -> Request {
    Request::get(target).header("accept", accept).header("accept-encoding", codings)
}

/// The answer once it is compressed. Each replica compresses for itself.
async fn compressed(app: &TestApp, target: &str, accept: &str, coding: &str) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = app.send(asking(target, accept, coding)).await;
        answer.expect_status(200);
        if answer.header("content-encoding") == coding {
            return answer;
        }
        assert!(begun.elapsed() < MAX_WAIT, "{target} is never compressed: {answer:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_compressed_answer_has_the_same_text_and_a_tag_of_its_own() {
    let app = TestApp::new();
    let page = page(&app).await;
    let documents = DOCUMENTS.map(|target| (target.to_owned(), "*/*"));
    for (target, accept) in page.representations().into_iter().chain(documents) {
        let plain = app.send(Request::get(&target).header("accept", accept)).await;
        let full = compressed(&app, &target, accept, "gzip").await;
        assert_eq!(full.decoded().body, plain.body, "{target}");
        assert!(full.body.len() < plain.body.len(), "{target}");
        assert!(plain.members("vary").contains(&"accept-encoding".to_owned()), "{target}: {plain:?}");
        assert_ne!(full.header("etag"), plain.header("etag"), "{target}");
        let short = app.send(asking(&target, accept, "gzip").header("if-none-match", full.header("etag"))).await;
        assert!(short.expect_status(304).body.is_empty());
        assert!(!short.headers.contains_key("content-encoding"), "{short:?}");
        assert_eq!(short.header("etag"), full.header("etag"), "{target}");
        for field in ["cache-control", "vary", "link", "content-security-policy"] {
            let values = [&plain, &full, &short].map(|answer| answer.headers.get(field));
            assert!(values.iter().all(|value| *value == values[0]), "{field}: {target}");
        }
        assert_eq!(full.header("content-type"), plain.header("content-type"), "{target}");
        let other = Request::get(&target).header("accept", accept).header("if-none-match", full.header("etag"));
        app.send(other).await.expect_status(200);
    }
}

#[tokio::test]
async fn the_tag_of_a_compressed_page_is_a_precondition_too() {
    let app = TestApp::new();
    let page = page(&app).await;
    let tag = compressed(&app, &format!("/{}", page.slug), "*/*", "gzip").await.header("etag").to_owned();
    let update = || {
        let body = json!({"title": "Changed"}).to_string();
        Request::update(&page.slug, body).key(&page.key).header("if-match", &tag)
    };
    app.send(update()).await.expect_status(200);
    app.send(update()).await.expect_error(412, "precondition_failed");
}

#[tokio::test]
async fn a_client_without_our_codings_gets_the_bytes_as_they_are() {
    let app = TestApp::new();
    let page = page(&app).await;
    let target = format!("/{}", page.slug);
    compressed(&app, &target, "*/*", "gzip").await;
    for refusal in ["", "br", "identity", "gzip;q=0", "gzip;q=0.5, identity", "*;q=0", "identity;q=0"] {
        let answer = app.send(asking(&target, "*/*", refusal)).await;
        assert_eq!(answer.expect_status(200).header("content-encoding"), "", "{refusal}");
    }
}

#[tokio::test]
async fn an_answer_that_shows_a_key_is_never_compressed() {
    let app = TestApp::new();
    let content = "Some words. ".repeat(100);
    let body = json!({"title": "Hello", "content": content}).to_string();
    let created = app.send(Request::create(body).header("accept-encoding", "gzip")).await;
    assert_eq!(created.expect_status(201).header("content-encoding"), "");
    let (slug, key) = (created.field("slug"), created.field("edit_key"));
    let body = json!({"content": content}).to_string();
    let updated = app.send(Request::update(&slug, body).key(&key).header("accept-encoding", "gzip")).await;
    assert_eq!(updated.expect_status(200).header("content-encoding"), "");
    let form = format!("grant_type=client_credentials&client_id={slug}&client_secret={key}");
    let token = app.send(Request::token(form).header("accept-encoding", "gzip")).await;
    assert_eq!(token.expect_status(200).header("content-encoding"), "");
}
