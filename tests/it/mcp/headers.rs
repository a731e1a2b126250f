//! The headers and the `_meta` that the 2026-07-28 revision requires of every request.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use super::client::{Client, post};
use crate::in_process::app::TestApp;
use crate::support::revision::{LEGACY, MODERN, opening};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";

fn reading(client: &Client) -> Value {
    client.message("tools/call", json!({"name": "get_page", "arguments": {"slug": "never-was-2222bbbb"}}))
}

#[tokio::test]
async fn a_header_that_is_missing_twice_there_or_other_than_the_body_is_a_mismatch() {
    let app = TestApp::new();
    let client = Client::new(&app, MODERN);
    let message = reading(&client);
    for (header, other) in
        [("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/list"), ("mcp-name", "delete_page")]
    {
        let request = || client.carrying(&message);
        app.send(request().without(header)).await.refuses(400, -32020);
        app.send(request().without(header).header(header, other)).await.refuses(400, -32020);
    }
    for header in ["mcp-method", "mcp-name"] {
        let value = if header == "mcp-name" { "get_page" } else { "tools/call" };
        app.send(client.carrying(&message).header(header, value)).await.refuses(400, -32020);
    }
}

#[tokio::test]
async fn initialize_needs_no_header_and_one_that_contradicts_it_is_refused() {
    let app = TestApp::new();
    let message = |revision: &str| {
        json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": opening(revision)}).to_string()
    };
    for (revision, header) in [("2025-11-25", "2025-06-18"), ("2025-11-25", MODERN), (MODERN, "2025-11-25")] {
        app.send(post(message(revision))).await.expect_status(200);
        let request = post(message(revision)).header("mcp-protocol-version", header);
        let answer = app.send(request).await;
        answer.refuses(400, -32600);
        assert_eq!(answer.json()["id"], 7);
    }
    let modern = || post(message(MODERN)).header("mcp-protocol-version", MODERN);
    app.send(modern()).await.expect_status(200);
    app.send(modern().header("mcp-method", "initialize")).await.expect_status(200);
    app.send(modern().header("mcp-method", "tools/list")).await.refuses(400, -32020);
    let twice = modern().header("mcp-method", "initialize").header("mcp-method", "initialize");
    app.send(twice).await.refuses(400, -32020);
}

#[tokio::test]
async fn a_notification_has_the_headers_of_its_revision_too() {
    let app = TestApp::new();
    let client = Client::new(&app, MODERN);
    let mut message = client.message("notifications/cancelled", json!({"requestId": 1}));
    message.as_object_mut().unwrap().remove("id");
    app.send(client.carrying(&message)).await.expect_status(202);
    app.send(client.carrying(&message).without("mcp-method")).await.refuses(400, -32020);
}

#[tokio::test]
async fn a_request_may_name_a_revision_with_a_handshake_in_its_meta() {
    let app = TestApp::new();
    for revision in LEGACY {
        let mut message = Client::new(&app, revision).message("tools/list", json!({}));
        message["params"]["_meta"] = json!({VERSION: revision});
        let request = || post(message.to_string());
        let answer = app.send(request().header("mcp-protocol-version", revision)).await;
        assert!(answer.expect_status(200).json()["result"].get("resultType").is_none(), "{answer:?}");
        app.send(request()).await.refuses(400, -32020);
    }
}

#[tokio::test]
async fn a_name_in_base64_is_decoded_before_it_is_compared() {
    let app = TestApp::new();
    let client = Client::new(&app, MODERN);
    let request = || client.carrying(&reading(&client)).without("mcp-name");
    app.send(request().header("mcp-name", "=?base64?Z2V0X3BhZ2U=?=")).await.expect_status(200);
    app.send(request().header("mcp-name", "=?base64?ZGVsZXRlX3BhZ2U=?=")).await.refuses(400, -32020);
}

#[tokio::test]
async fn meta_must_have_the_revision_and_the_capabilities_and_may_lack_the_client() {
    let app = TestApp::new();
    let client = Client::new(&app, MODERN);
    for member in [VERSION, CAPABILITIES] {
        let mut message = reading(&client);
        message["params"]["_meta"].as_object_mut().unwrap().remove(member);
        let error = app.send(client.carrying(&message)).await.refuses(400, -32602);
        assert!(error["message"].as_str().unwrap().contains(member), "{error}");
    }
    let mut message = reading(&client);
    message["params"].as_object_mut().unwrap().remove("_meta");
    app.send(client.carrying(&message)).await.refuses(400, -32602);
    let mut message = reading(&client);
    message["params"]["_meta"].as_object_mut().unwrap().remove(CLIENT);
    app.send(client.carrying(&message)).await.expect_status(200);
}

#[tokio::test]
async fn a_revision_that_is_not_spoken_is_refused_with_those_that_are() {
    let app = TestApp::new();
    let client = Client::new(&app, MODERN);
    for revision in ["2099-01-01", "2024-11-05", "nonsense"] {
        let mut message = reading(&client);
        message["params"]["_meta"][VERSION] = json!(revision);
        let request = client.carrying(&message).without("mcp-protocol-version");
        let error = app.send(request.header("mcp-protocol-version", revision)).await.refuses(400, -32022);
        assert_eq!(error["data"]["requested"], revision);
        assert_eq!(error["data"]["supported"], json!(handbill::http::metadata::MCP_PROTOCOL_VERSIONS));
    }
}

#[tokio::test]
async fn an_unknown_method_is_404_without_a_handshake_and_200_with_one() {
    let app = TestApp::new();
    for method in [
        "nonsense",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "completion/complete",
        "logging/setLevel",
        "tasks/get",
        "skills/list",
        "subscriptions/listen",
    ] {
        for params in
            [json!({}), json!({"name": "x", "uri": "https://pages.example/x", "level": "info", "taskId": "x"})]
        {
            let client = Client::new(&app, MODERN);
            let request = client.request(method, params.clone()).without("mcp-name");
            // Requests of some methods name their subject in a header.
            let request = match method {
                "prompts/get" | "tasks/get" if params["name"] == "x" => request.header("mcp-name", "x"),
                "resources/read" | "resources/subscribe" if params["name"] == "x" => {
                    request.header("mcp-name", "https://pages.example/x")
                }
                _ => request,
            };
            app.send(request).await.refuses(404, -32601);
            for revision in LEGACY {
                Client::new(&app, revision).ask(method, params.clone()).await.refuses(200, -32601);
                // A request that names its revision in `_meta` is answered as one without a handshake.
                let client = Client::new(&app, revision);
                let mut message = client.message(method, params.clone());
                message["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": revision});
                app.send(client.carrying(&message)).await.refuses(404, -32601);
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_does_not_repeat_input_that_is_a_key() {
    let app = TestApp::new();
    let key = app.published().await.key;
    let client = Client::new(&app, MODERN);
    // `TestApp` checks every error for keys.
    app.send(client.carrying(&reading(&client)).without("mcp-name").header("mcp-name", &key))
        .await
        .refuses(400, -32020);
    client.ask(&key, json!({})).await.refuses(404, -32601);
    client.ask("tools/call", json!({"name": key, "arguments": {}})).await.refuses(200, -32602);
    let mut message = reading(&client);
    message["params"]["_meta"][VERSION] = json!(key);
    let request = client.carrying(&message).without("mcp-protocol-version").header("mcp-protocol-version", &key);
    app.send(request).await.refuses(400, -32022);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    app.send(post(list.to_string()).header("mcp-protocol-version", &key)).await.refuses(400, -32600);
    // The key is not repeated in base64 either.
    let encoded = format!("=?base64?{}?=", BASE64_STANDARD.encode(&key));
    for header in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        let request = client.carrying(&reading(&client)).without(header).header(header, &encoded);
        let answer = app.send(request).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(!answer.text().contains(&BASE64_STANDARD.encode(&key)[..20]), "{answer:?}");
    }
    for revision in LEGACY {
        let client = Client::new(&app, revision);
        client.ask(&key, json!({})).await.refuses(200, -32601);
        client.ask("tools/call", json!({"name": key, "arguments": {}})).await.refuses(200, -32602);
    }
}

#[tokio::test]
async fn a_refusal_does_not_repeat_what_is_long() {
    let app = TestApp::new();
    let client = Client::new(&app, MODERN);
    for name in ["x".repeat(100_000), "\u{1}".repeat(20_000)] {
        let message = client.message("tools/call", json!({"name": name, "arguments": {}}));
        let answer = app.send(client.carrying(&reading(&client)).body(message.to_string())).await;
        answer.refuses(400, -32020);
        assert!(answer.body.len() < 1000, "{answer:?}");
    }
}
