//! Invalid messages, and requests that cannot carry a message, are refused.

use std::convert::Infallible;

use axum::body::Body;
use futures_util::stream;
use serde_json::{Value, json};

use super::client::{Client, TEST_TIMEOUT, post};
use crate::in_process::app::{Setup, TestApp};
use crate::support::exchange::{Answer, Request};
use crate::support::revision::MODERN;

/// A message of the revisions that begin with a handshake, padded to `bytes` bytes.
fn padded(bytes: usize) -> String {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    message.clone() + &" ".repeat(bytes - message.len())
}

async fn send(app: &TestApp, body: impl ToString) -> Answer {
    app.send(post(body.to_string())).await
}

#[tokio::test]
async fn a_body_that_is_not_json_is_a_parse_error() {
    let app = TestApp::new();
    for body in ["", "{", "nonsense", r#"{"jsonrpc": "2.0"} {}"#, &"[".repeat(10_000)] {
        let answer = send(&app, body).await;
        answer.refuses(400, -32700);
        assert!(answer.json().get("id").is_none(), "{answer:?}");
    }
    let deep = format!(
        r#"{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {{"a": {}}}}}"#,
        "[".repeat(200) + &"]".repeat(200)
    );
    let error = send(&app, deep).await.refuses(400, -32700);
    assert!(error["message"].as_str().unwrap().contains("nested"), "{error}");
    app.send(post(Body::from(vec![b'"', 0xff, b'"']))).await.refuses(400, -32700);
    let marked = send(&app, "\u{feff}{}").await.refuses(400, -32700);
    assert!(marked["message"].as_str().unwrap().contains("byte order mark"), "{marked}");
}

#[tokio::test]
async fn a_body_that_is_no_message_is_an_invalid_request_and_so_is_a_batch() {
    let app = TestApp::new();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for no_message in [
        json!([message, message]),
        json!([]),
        json!("tools/list"),
        json!(null),
        json!({}),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!({"jsonrpc": "2.0", "id": 1, "method": 7}),
        json!({"jsonrpc": "1.0", "id": 1, "method": "tools/list"}),
        json!({"id": 1, "method": "tools/list"}),
    ] {
        send(&app, no_message).await.refuses(400, -32600);
    }
    let twice = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "method": "ping"}"#;
    send(&app, twice).await.refuses(400, -32600);
    // Two arguments with one name: Serde alone would take the last.
    let twice = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "create_page", "arguments": {"title": "A", "title": "B", "content": "c"}}}"#;
    let error = send(&app, twice).await.refuses(400, -32600);
    assert!(error["message"].as_str().unwrap().contains("twice"), "{error}");
}

/// A call of `get_page` with `count` values `element` in a list in the place `place` names.
fn call_with(place: &str, element: &str, count: usize) -> String {
    let list = format!("[{}]", vec![element; count].join(","));
    let (meta, arguments, other) = match place {
        "_meta" => (format!(r#""_meta": {{"x": {list}}},"#), String::new(), String::new()),
        "arguments" => (String::new(), format!(r#", "x": {list}"#), String::new()),
        "params" => (format!(r#""x": {list},"#), String::new(), String::new()),
        _ => (String::new(), String::new(), format!(r#""x": {list},"#)),
    };
    let arguments = format!(r#"{{"slug": "a-22222222"{arguments}}}"#);
    let params = format!(r#"{{{meta} "name": "get_page", "arguments": {arguments}}}"#);
    format!(r#"{{{other} "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}"#)
}

#[tokio::test]
async fn a_message_of_more_than_1024_values_is_refused_wherever_they_stand_and_reaches_no_store() {
    let app = TestApp::new();
    for place in ["_meta", "arguments", "params", "message"] {
        for element in ["0", "[]", r#"{"":0}"#, r#"{"":{"":0}}"#] {
            let error = send(&app, call_with(place, element, 1024)).await.refuses(400, -32700);
            assert!(error["message"].as_str().unwrap().contains("1024 values"), "{place}: {error}");
        }
    }
    let error = send(&app, format!("[{}0]", "0,".repeat(1024))).await.refuses(400, -32700);
    assert!(error["message"].as_str().unwrap().contains("1024 values"), "{error}");
}

#[tokio::test]
async fn a_message_of_1024_values_is_taken() {
    let app = TestApp::new();
    // The message, its members, `_meta`, the list, and the members of `params` and `arguments`.
    let others = 10;
    let answer = send(&app, call_with("_meta", "0", 1024 - others)).await;
    assert_eq!((answer.status, &answer.json()["result"]["isError"]), (200, &json!(true)), "{answer:?}");
    send(&app, call_with("_meta", "0", 1024 - others + 1)).await.refuses(400, -32700);
}

#[tokio::test]
async fn members_that_nobody_reads_are_skipped_whatever_is_in_them() {
    let app = TestApp::new();
    let odd = r#"{"a": [1e300, "\u0000", {"b": null, "b": -1}], "a": true}"#;
    let message = format!(
        r#"{{"x": {odd}, "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {{"x": {odd}, "_meta": {{"x": {odd}, "x": 0}}, "name": "get_page", "arguments": {{"slug": "a-22222222"}}}}}}"#
    );
    let answer = send(&app, message).await;
    assert_eq!((answer.status, &answer.json()["result"]["isError"]), (200, &json!(true)), "{answer:?}");
}

#[tokio::test]
async fn the_refusal_of_an_unknown_method_says_which_there_are() {
    let app = TestApp::new();
    let error = Client::new(&app, MODERN).ask("nonsense", json!({})).await.refuses(404, -32601);
    assert!(error["message"].as_str().unwrap().contains("tools/call"), "{error}");
}

#[tokio::test]
async fn an_id_is_a_string_or_an_integer_and_comes_back_as_it_was() {
    let app = TestApp::new();
    for id in [json!(null), json!(1.5), json!(true), json!({}), json!([1]), json!(u64::MAX)] {
        send(&app, json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).await.refuses(400, -32600);
    }
    for id in [json!(0), json!(-7), json!(i64::MAX), json!(""), json!("7")] {
        let answer = send(&app, json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).await;
        assert_eq!(answer.expect_status(200).json(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
}

#[tokio::test]
async fn an_answer_to_a_question_that_was_never_asked_is_an_invalid_request() {
    let app = TestApp::new();
    for answer in [
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}}),
        json!({"jsonrpc": "2.0", "result": 7}),
    ] {
        send(&app, answer).await.refuses(400, -32600);
    }
}

#[tokio::test]
async fn params_that_do_not_fit_their_method_are_invalid_params() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        for params in [
            json!({}),
            json!({"name": 7}),
            json!({"arguments": {"slug": "a-2222bbbb"}}),
            json!({"name": "get_page", "arguments": "slug"}),
            json!({"name": "get_page", "arguments": ["a-2222bbbb"]}),
        ] {
            let error = client.ask("tools/call", params).await.refuses(200, -32602);
            assert!(error["message"].as_str().unwrap().contains("`params.name`"), "{error}");
        }
        client.ask("tools/list", json!({"cursor": "made-up"})).await.refuses(200, -32602);
        // The newest revision has no such method.
        let (status, code) = if client.is_modern() { (404, -32601) } else { (200, -32602) };
        client.ask("initialize", json!({})).await.refuses(status, code);
        for params in [json!(["get_page"]), json!("get_page")] {
            let mut message = client.message("tools/call", json!({}));
            message["params"] = params;
            app.send(client.carrying(&message)).await.refuses(400, -32600);
        }
    }
}

#[tokio::test]
async fn a_call_without_arguments_is_one_with_none() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        for params in [json!({"name": "get_page"}), json!({"name": "get_page", "arguments": {}})] {
            let result = client.result("tools/call", params).await;
            assert_eq!(result["isError"], true);
        }
    }
}

#[tokio::test]
async fn a_client_that_accepts_json_in_any_way_or_says_nothing_is_answered() {
    let app = TestApp::new();
    for client in Client::each(&app) {
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
}

#[tokio::test]
async fn every_other_method_is_405_and_names_post() {
    let app = TestApp::new();
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE"] {
        let request = Request::new(method, "/mcp").header("host", "pages.example");
        let answer = app.send(request.header("accept", "text/event-stream")).await;
        assert_eq!(answer.expect_status(405).members("allow"), ["post"], "{method}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_is_refused_as_rest_refuses_it() {
    let app = TestApp::new();
    for content_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
        let request = post(padded(100)).without("content-type");
        let request = content_type.into_iter().fold(request, |request, value| request.header("content-type", value));
        let error = app.send(request).await.refuses(400, -32600);
        assert_eq!(error["data"], json!({"error": "invalid_body", "status": 400}));
    }
    let encoded = post(padded(100)).header("content-encoding", "gzip");
    app.send(encoded).await.refuses(400, -32600);
    for content_type in ["application/json; charset=utf-8", "application/mcp+json"] {
        let request = post(padded(100)).without("content-type").header("content-type", content_type);
        app.send(request).await.expect_status(200);
    }
}

#[tokio::test]
async fn a_body_over_131072_bytes_is_413_in_json() {
    let app = TestApp::new();
    send(&app, padded(131_072)).await.expect_status(200);
    for bytes in [131_073, 3_000_000] {
        let error = send(&app, padded(bytes)).await.refuses(413, -32600);
        assert_eq!(error["data"], json!({"error": "body_too_large", "status": 413}));
        assert!(error["message"].as_str().unwrap().contains("131072"), "{error}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_408_and_one_that_breaks_off_400() {
    let app = TestApp::new();
    tokio::time::pause();
    let stalled = Body::from_stream(stream::pending::<Result<&str, Infallible>>());
    let answer = tokio::time::timeout(TEST_TIMEOUT, app.send(post(stalled))).await.expect("it is answered");
    let error = answer.refuses(408, -32600);
    assert_eq!(error["data"]["error"], "timeout");
    let broken = Body::from_stream(stream::iter([Ok("{"), Err(std::io::Error::other("the client went away"))]));
    app.send(post(broken)).await.refuses(400, -32600);
}

#[tokio::test]
async fn a_body_for_which_there_is_no_room_is_503_in_json_and_says_when_to_come_back() {
    let app = TestApp::new();
    let full = std::io::Error::from(std::io::ErrorKind::QuotaExceeded);
    let answer = app.send(post(Body::from_stream(stream::iter([Err::<&str, _>(full)])))).await;
    let error = answer.refuses(503, -32600);
    assert_eq!(error["data"], json!({"error": "unavailable", "status": 503}));
    assert!(answer.retry_after() >= 1, "{answer:?}");
}

#[tokio::test]
async fn a_head_of_over_32_kib_is_431() {
    let app = TestApp::new();
    let answer = app.send(post(padded(100)).header("x-long", "x".repeat(40_000))).await;
    assert_eq!(answer.refuses(431, -32600)["data"], json!({"error": "headers_too_large", "status": 431}));
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
async fn a_refused_request_does_nothing() {
    let app = TestApp::new();
    let call = json!({"name": "create_page", "arguments": {"title": "T", "content": "c"}});
    let message: Value = json!([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}]);
    send(&app, message).await.refuses(400, -32600);
    let client = Client::new(&app, MODERN);
    let request = client.request("tools/call", call);
    app.send(request.without("mcp-name").header("mcp-name", "get_page")).await.refuses(400, -32020);
    assert_eq!(app.store.calls().inserts, 0);
}

#[tokio::test]
async fn a_key_in_the_query_is_an_invalid_request_and_nothing_is_done() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    let (slug, key) = (&page.slug, &page.key);
    let before = app.page(slug).await;
    for client in Client::each(&app) {
        for query in [
            format!("authorization=Bearer%20{key}"),
            format!("edit_key={key}"),
            format!("x=%22{key}%22"),
            format!("x=hbk%5F{}", &key[4..]),
            format!("x=hbk%255F{}", &key[4..]),
            key.clone(),
            "access_token=x".to_owned(),
            "key".to_owned(),
            "%74oken=".to_owned(),
            "Edit_Key=x".to_owned(),
        ] {
            for arguments in [json!({"slug": slug, "edit_key": key, "content": "changed"}), json!({"slug": slug})] {
                let tool = if arguments.get("content").is_some() { "update_page" } else { "get_page" };
                let request = client.request("tools/call", json!({"name": tool, "arguments": arguments}));
                let answer = app.send(request.query(&query)).await;
                let error = answer.refuses(400, -32600);
                assert_eq!(error["data"], json!({"error": "invalid_request", "status": 400}), "{query}");
                assert!(error["message"].as_str().unwrap().contains("`edit_key`"), "{error}");
            }
        }
        app.send(client.request("tools/list", json!({})).query("key=x")).await.refuses(400, -32600);
        for query in ["", "utm_source=x", "x=hbk_", "monkey=1"] {
            app.send(client.request("tools/list", json!({})).query(query)).await.expect_status(200);
        }
    }
    assert_eq!(app.page(slug).await, before);
}
