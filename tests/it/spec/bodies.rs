//! Rules for a request body, the same on create and on update (contract, decision 4).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use handbill_pages::values::title::MAX_CHARS;
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::{Answer, Request, holds_a_key};

pub(crate) const MAX_BODY_BYTES: usize = 131_072;

/// Sends the body that `shape` makes of a request as a create and as an authorised update. Fails unless both answer
/// `code` with `status` and the page stays as it is.
pub(crate) async fn refused(status: u16, code: &str, shape: impl Fn(Request) -> Request) -> Vec<Answer> {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let before = app.page(&page.slug).await;
    let mut answers = Vec::new();
    for request in [Request::create(""), Request::update(&page.slug, "").key(&page.key)] {
        let answer = app.send(shape(request)).await;
        answer.expect_error(status, code);
        answers.push(answer);
    }
    assert_eq!(app.page(&page.slug).await, before);
    answers
}

async fn invalid(body: impl AsRef<[u8]>) {
    let body = Bytes::copy_from_slice(body.as_ref());
    refused(400, "invalid_body", |request| request.body(body.clone())).await;
}

/// Fails unless every message has `part`.
fn name(answers: &[Answer], part: &str) {
    for answer in answers {
        let message = answer.field("message");
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_the_json_of_an_object_answers_400() {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    for text in [
        "",
        "{",
        "title=T&content=c",
        "{'title': 'T', 'content': 'c'}",
        r#"{"title": "T", "content": "c",}"#,
        "{\"title\": \"T\", \"content\": \"line\nbreak\"}",
        r#"{"title": "T", "content": "c"}{}"#,
        r#"{"title": "T", "content": "\ud83d x"}"#,
        "\u{feff}{\"title\": \"T\", \"content\": \"c\"}",
        "null",
        r#"["T", "c"]"#,
        &deep,
        &format!(r#"{{"title": "T", "content": {deep}}}"#),
    ] {
        invalid(text).await;
    }
    // Latin-1, and a surrogate in three bytes, as some encoders write it.
    invalid(b"{\"title\": \"caf\xe9\", \"content\": \"c\"}").await;
    invalid(b"{\"title\": \"\xed\xa0\x80\", \"content\": \"c\"}").await;
}

#[tokio::test]
async fn white_space_around_the_json_is_accepted() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let body = " \r\n\t{\"title\": \"T\", \"content\": \"c\"}\n ";
    app.create(body).await.expect_status(201);
    app.send(Request::update(&page.slug, body).key(&page.key)).await.expect_status(200);
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_answers_400() {
    let body = r#"{"title": "T", "content": "c"}"#;
    for content_type in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "*/*"] {
        let answers = refused(400, "invalid_body", |request| {
            request.without("content-type").header("content-type", content_type).body(body)
        });
        name(&answers.await, "Content-Type");
    }
    name(&refused(400, "invalid_body", |request| request.without("content-type").body(body)).await, "Content-Type");
}

#[tokio::test]
async fn json_may_be_declared_with_parameters_and_in_any_case() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let body = r#"{"title": "T", "content": "c"}"#;
    for content_type in ["application/json; charset=utf-8", "Application/JSON", "application/json ;charset=UTF-8"] {
        let declare = |request: Request| request.without("content-type").header("content-type", content_type);
        app.send(declare(Request::create(body))).await.expect_status(201);
        app.send(declare(Request::update(&page.slug, body)).key(&page.key)).await.expect_status(200);
    }
}

#[tokio::test]
async fn an_encoded_body_answers_400() {
    let body = r#"{"title": "T", "content": "c"}"#;
    for encoding in ["gzip", "identity"] {
        let answers = refused(400, "invalid_body", |request| request.header("content-encoding", encoding).body(body));
        name(&answers.await, "Content-Encoding");
    }
}

#[tokio::test]
async fn a_body_of_131072_bytes_is_accepted_and_no_more() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let body = r#"{"title": "T", "content": "c"}"#;
    let largest = format!("{body}{}", " ".repeat(MAX_BODY_BYTES - body.len()));
    app.create(largest.clone()).await.expect_status(201);
    app.send(Request::update(&page.slug, largest.clone()).key(&page.key)).await.expect_status(200);
    let larger = format!("{largest} ");
    refused(413, "body_too_large", |request| request.body(larger.clone())).await;
    let pieces = || stream::iter((0..200).map(|_| Ok::<_, Infallible>(Bytes::from(vec![b' '; 1024]))));
    refused(413, "body_too_large", |request| request.body(Body::from_stream(pieces()))).await;
    let nonsense = vec![0xff; 3 * MAX_BODY_BYTES];
    refused(413, "body_too_large", |request| request.without("content-type").body(nonsense.clone())).await;
}

#[tokio::test]
async fn content_that_is_too_large_answers_413_whatever_else_is_wrong() {
    let content = "a".repeat(102_401);
    let bodies = [
        json!({"title": "", "content": content}),
        json!({"title": "a\nb", "content": content}),
        json!({"title": "a".repeat(MAX_CHARS + 1), "content": content}),
        json!({"title": 1, "content": content}),
        json!({"titel": "T", "content": content}),
    ];
    for body in bodies {
        let answers = refused(413, "content_too_large", |request| request.body(body.to_string())).await;
        name(&answers, "`content`");
    }
}

#[tokio::test]
async fn no_message_quotes_a_value_or_a_key_in_a_wrong_place() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let key = &page.key;
    for body in [
        json!({"title": "T", "content": "c", key: "x"}).to_string(),
        json!({"title": "T", "content": "c", (&key[..30]): "x"}).to_string(),
        json!({"title": "T", "content": "c", "edit_key": format!("{key}x")}).to_string(),
        json!({"title": {key: 1}, "content": "c"}).to_string(),
        json!([key]).to_string(),
        key.clone(),
        json!({"title": format!("{key}\n{}", "x".repeat(300)), "content": "c"}).to_string(),
    ] {
        for request in [Request::create(body.clone()), Request::update(&page.slug, body.clone()).key(key)] {
            let answer = app.send(request).await;
            answer.expect_error(400, "invalid_body");
            assert!(!holds_a_key(&answer.body) && !answer.text().contains(&key[4..24]), "{answer:?}");
        }
    }
    for body in [json!({"title": {"swordfish": 1}}), json!({"title": "T", "content": ["swordfish"]})] {
        let answer = app.create(body.to_string()).await;
        assert!(!answer.text().contains("swordfish"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_answers_400() {
    let broken = || {
        let pieces = [Ok(Bytes::from_static(b"{\"title\": ")), Err(std::io::Error::other("the client went away"))];
        Body::from_stream(stream::iter(pieces))
    };
    refused(400, "invalid_body", |request| request.body(broken())).await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_answers_408() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let before = app.page(&page.slug).await;
    let stalled = || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    tokio::time::pause();
    app.send(Request::create(stalled())).await.expect_error(408, "timeout");
    app.send(Request::update(&page.slug, stalled()).key(&page.key)).await.expect_error(408, "timeout");
    tokio::time::resume();
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_at_once_and_not_read_on() {
    let app = TestApp::new();
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let endless = stream::iter(0..).map(move |_: u64| {
        counter.fetch_add(1024, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from(vec![b' '; 1024]))
    });
    app.send(Request::create(Body::from_stream(endless))).await.expect_error(413, "body_too_large");
    assert_eq!(read.load(Ordering::Relaxed), MAX_BODY_BYTES + 1024);
}

fn chunked(text: &str, bytes: usize) -> Body {
    let chunks: Vec<_> =
        text.as_bytes().chunks(bytes).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk))).collect();
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn a_body_in_thousands_of_tiny_chunks_answers_400() {
    let body = json!({"title": "T", "content": "a".repeat(102_000)}).to_string();
    for answer in refused(400, "invalid_body", |request| request.body(chunked(&body, 1))).await {
        assert!(answer.field("message").contains("32 bytes"), "{answer:?}");
    }
    refused(400, "invalid_body", |request| request.body(chunked(&body, 24))).await;
    let (app, page) = Setup::unlimited().start_with_page().await;
    app.send(Request::create(chunked(&body, 32))).await.expect_status(201);
    app.send(Request::update(&page.slug, chunked(&body, 32)).key(&page.key)).await.expect_status(200);
    // A form or a keystroke at a time: a short body may come in chunks of any size.
    app.send(Request::create(chunked(r#"{"title": "T", "content": "c"}"#, 1))).await.expect_status(201);
}
