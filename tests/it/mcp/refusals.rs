//! Requests that do not carry a message are refused before `rmcp` sees them, and no refusal repeats a key.

use std::convert::Infallible;

use axum::body::Body;
use base64::prelude::{BASE64_STANDARD, Engine};
use futures_util::stream;
use serde_json::{Value, json};

use super::client::{Client, LEGACY, MODERN, TEST_TIMEOUT, post};
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::{Answer, Request};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A message of the revisions that begin with a handshake, padded to `bytes` bytes.
fn padded(bytes: usize) -> String {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    message.clone() + &" ".repeat(bytes - message.len())
}

fn reading(client: &Client) -> Value {
    client.message("tools/call", json!({"name": "get_page", "arguments": {"slug": "never-was-2222bbbb"}}))
}

async fn send(app: &TestApp, body: impl ToString) -> Answer {
    app.send(post(body.to_string())).await
}

#[tokio::test]
async fn a_body_that_is_not_json_is_a_parse_error() {
    let app = TestApp::new();
    for body in ["", "nonsense", r#"{"jsonrpc": "2.0"} {}"#, &"[".repeat(10_000), "\u{feff}{}"] {
        send(&app, body).await.refuses(400, -32700);
    }
    app.send(post(Body::from(vec![b'"', 0xff, b'"']))).await.refuses(400, -32700);
}

#[tokio::test]
async fn a_body_that_is_no_message_is_invalid_and_so_is_a_batch() {
    let app = TestApp::new();
    let create = json!({"name": "create_page", "arguments": {"title": "T", "content": "c"}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": create});
    for no_message in [json!([message, message]), json!("tools/list"), json!({"jsonrpc": "2.0", "id": 1})] {
        send(&app, no_message).await.refuses(400, -32600);
    }
    let listed =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "create_page", "arguments": [1]}});
    send(&app, listed).await.refuses(200, -32602);
    // Two arguments with one name: Serde alone would take the last.
    let twice = message.to_string().replace(r#""title":"T""#, r#""title":"A","title":"B""#);
    let error = send(&app, twice).await.refuses(400, -32600);
    assert!(error["message"].as_str().unwrap().contains("twice"), "{error}");
    assert_eq!(app.store.calls().inserts, 0);
}

#[tokio::test]
async fn a_message_of_more_than_1024_values_is_refused() {
    let app = TestApp::new();
    let message = |place: &str, count: usize| {
        let params = json!({"name": "get_page", "arguments": {"slug": "a-22222222"}});
        let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        message.pointer_mut(place).unwrap()["x"] = json!(vec![0; count]);
        message
    };
    for place in ["", "/params", "/params/arguments"] {
        send(&app, message(place, 1000)).await.expect_status(200);
        let error = send(&app, message(place, 1024)).await.refuses(400, -32600);
        assert!(error["message"].as_str().unwrap().contains("1024 values"), "{place}: {error}");
    }
}

#[tokio::test]
async fn wrong_params_and_methods_are_told_what_to_send() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        for params in [json!({}), json!({"name": 7}), json!({"name": "get_page", "arguments": "slug"})] {
            let error = client.ask("tools/call", params).await.refuses(200, -32602);
            assert!(error["message"].as_str().unwrap().contains("`params.name`"), "{error}");
        }
        for method in ["skills/get", "resources/read"] {
            let error = client.ask(method, json!({"name": "handbill"})).await.refuses(200, -32602);
            assert!(error["message"].as_str().unwrap().contains("`params.uri`"), "{error}");
        }
        client.ask("tools/list", json!({"cursor": "made-up"})).await.refuses(200, -32602);
        assert_eq!(client.result("tools/call", json!({"name": "get_page"})).await["isError"], true);
        let (status, code) = if client.is_modern() { (404, -32601) } else { (200, -32602) };
        // The newest revision has no such method.
        client.ask("initialize", json!({})).await.refuses(status, code);
        let level = json!({"level": "info"});
        for (method, params) in [("nonsense", json!({})), ("prompts/list", json!({})), ("logging/setLevel", level)] {
            let error = client.ask(method, params).await;
            let error = error.refuses(if client.is_modern() { 404 } else { 200 }, -32601);
            assert!(error["message"].as_str().unwrap().contains("does not offer this method"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_client_that_accepts_json_or_says_nothing_is_answered() {
    let app = TestApp::new();
    let client = Client::new(&app, MODERN);
    let request = || client.request("tools/list", json!({})).without("accept");
    app.send(request()).await.expect_status(200);
    for accept in ["*/*", "application/json", "text/html, application/*;q=0.5", "APPLICATION/JSON; q=1"] {
        let answer = app.send(request().header("accept", accept)).await;
        assert_eq!(answer.expect_status(200).header("content-type"), "application/json", "{accept}");
    }
    for accept in ["text/html", "text/event-stream", "application/json;q=0", ""] {
        app.send(request().header("accept", accept)).await.expect_status(406);
    }
}

#[tokio::test]
async fn every_other_method_is_405_and_names_post() {
    let app = TestApp::new();
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE"] {
        let answer = app.send(Request::new(method, "/mcp").header("host", "pages.example")).await;
        assert_eq!(answer.expect_status(405).members("allow"), ["post"], "{method}");
    }
}

#[tokio::test]
async fn what_rest_refuses_is_refused_with_the_code_of_rest() {
    let app = TestApp::new();
    tokio::time::pause();
    let stalled = Body::from_stream(stream::pending::<Result<&str, Infallible>>());
    let broken = Body::from_stream(stream::iter([Ok("{"), Err(std::io::Error::other("the client went away"))]));
    let full = std::io::Error::from(std::io::ErrorKind::QuotaExceeded);
    let full = Body::from_stream(stream::iter([Err::<&str, _>(full)]));
    for (request, status, code) in [
        (post(padded(100)).without("content-type"), 400, "invalid_body"),
        (post(padded(100)).without("content-type").header("content-type", "text/plain"), 400, "invalid_body"),
        (post(padded(100)).header("content-encoding", "gzip"), 400, "invalid_body"),
        (post(broken), 400, "invalid_body"),
        (post(stalled), 408, "timeout"),
        (post(padded(131_073)), 413, "body_too_large"),
        (post(padded(100)).header("x-long", "x".repeat(40_000)), 431, "headers_too_large"),
        (post(full), 503, "unavailable"),
    ] {
        let answer = tokio::time::timeout(TEST_TIMEOUT, app.send(request)).await.expect("it is answered");
        assert_eq!(answer.refuses(status, -32600)["data"], json!({"error": code, "status": status}));
        assert_eq!(answer.headers.contains_key("retry-after"), status == 503, "{answer:?}");
    }
    send(&app, padded(131_072)).await.expect_status(200);
    let typed = post(padded(100)).without("content-type").header("content-type", "application/json; charset=utf-8");
    app.send(typed).await.expect_status(200);
}

#[tokio::test]
async fn no_answer_may_be_kept_for_any_may_show_a_key() {
    let app = TestApp::new();
    let client = Client::new(&app, MODERN);
    let create = json!({"name": "create_page", "arguments": {"title": "T", "content": "c"}});
    let answer = client.ask("tools/call", create).await;
    assert!(answer.expect_status(200).text().contains("hbk_"));
    assert_eq!(answer.header("cache-control"), "no-store");
}

#[tokio::test]
async fn a_key_in_the_query_is_an_invalid_request_and_nothing_is_done() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let (slug, key) = (&page.slug, &page.key);
    let before = app.page(slug).await;
    let client = Client::new(&app, MODERN);
    let call = json!({"name": "update_page", "arguments": {"slug": slug, "edit_key": key, "content": "changed"}});
    for query in [format!("edit_key={key}"), format!("x=hbk%5F{}", &key[4..]), key.clone(), "%74oken=".to_owned()] {
        let error = app.send(client.request("tools/call", call.clone()).query(&query)).await.refuses(400, -32600);
        assert_eq!(error["data"], json!({"error": "invalid_request", "status": 400}), "{query}");
        assert!(error["message"].as_str().unwrap().contains("`edit_key`"), "{error}");
    }
    for query in ["", "utm_source=x", "x=hbk_", "monkey=1"] {
        app.send(client.request("tools/list", json!({})).query(query)).await.expect_status(200);
    }
    assert_eq!(app.page(slug).await, before);
}

#[tokio::test]
async fn a_refusal_repeats_neither_a_key_nor_what_is_long() {
    let app = TestApp::new();
    let key = app.published().await.key;
    let client = Client::new(&app, MODERN);
    // `TestApp` checks every error for keys.
    client.ask(&key, json!({})).await.refuses(404, -32601);
    client.ask("tools/call", json!({"name": key, "arguments": {}})).await.refuses(200, -32602);
    let mut message = reading(&client);
    message["params"]["_meta"][VERSION] = json!(key);
    let request = client.carrying(&message).without("mcp-protocol-version").header("mcp-protocol-version", &key);
    app.send(request).await.refuses(400, -32022);
    let legacy = Client::new(&app, LEGACY[0]);
    legacy.ask(&key, json!({})).await.refuses(200, -32601);
    legacy.ask("tools/call", json!({"name": key, "arguments": {}})).await.refuses(200, -32602);
    let encoded = format!("=?base64?{}?=", BASE64_STANDARD.encode(&key));
    for header in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        for value in [&key, &encoded, &"x".repeat(10_000)] {
            let answer = app.send(client.carrying(&reading(&client)).without(header).header(header, value)).await;
            assert_eq!(answer.status, 400, "{answer:?}");
            assert!(!answer.text().contains(&BASE64_STANDARD.encode(&key)[..20]), "{answer:?}");
            assert!(answer.body.len() < 1000, "{answer:?}");
        }
    }
}
