//! How clients of each revision begin.

use serde_json::json;

use super::client::Client;
use crate::in_process::app::TestApp;
use crate::support::revision::{LEGACY, MODERN, REVISIONS, UNNAMED, opening};

#[tokio::test]
async fn initialize_agrees_on_the_revision_of_the_client_where_it_has_a_handshake() {
    let app = TestApp::new();
    for revision in LEGACY {
        let result = Client::new(&app, revision).result("initialize", opening(revision)).await;
        assert_eq!(result["protocolVersion"], revision);
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        assert_eq!(result["serverInfo"]["name"], "example.pages/handbill");
        assert_eq!(result["serverInfo"]["title"], handbill::http::metadata::TITLE);
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(result["serverInfo"]["websiteUrl"], "https://pages.example");
        assert!(result["instructions"].as_str().unwrap().contains("edit_key"));
    }
}

#[tokio::test]
async fn initialize_for_any_other_revision_agrees_on_the_newest_with_a_handshake() {
    let app = TestApp::new();
    // 2025-03-26 obliges a server to take batches.
    for revision in [MODERN, UNNAMED, "2024-11-05", "2099-01-01", "nonsense"] {
        // A client that has agreed on nothing yet sends no header.
        let client = Client::new(&app, UNNAMED);
        assert_eq!(client.result("initialize", opening(revision)).await["protocolVersion"], "2025-11-25", "{revision}");
    }
}

#[tokio::test]
async fn no_session_is_begun_and_none_is_asked_for() {
    let app = TestApp::new();
    for revision in LEGACY {
        let client = Client::new(&app, revision);
        let answer = client.ask("initialize", opening(revision)).await;
        assert!(!answer.headers.contains_key("mcp-session-id"), "{answer:?}");
        let request = client.request("tools/list", json!({})).header("mcp-session-id", "made-up");
        app.send(request).await.expect_status(200);
    }
    let request = Client::new(&app, MODERN).request("tools/list", json!({})).header("mcp-session-id", "made-up");
    let answer = app.send(request).await;
    assert!(!answer.expect_status(200).headers.contains_key("mcp-session-id"), "{answer:?}");
}

#[tokio::test]
async fn a_notification_is_answered_202_without_a_body() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        for method in ["notifications/initialized", "notifications/cancelled", "notifications/of-no-kind"] {
            let mut message = client.message(method, json!({"requestId": 1}));
            message.as_object_mut().unwrap().remove("id");
            let answer = app.send(client.carrying(&message)).await;
            assert_eq!(answer.expect_status(202).text(), "", "{method}");
        }
    }
}

#[tokio::test]
async fn ping_is_answered_in_the_revisions_that_have_it() {
    let app = TestApp::new();
    for revision in LEGACY {
        assert_eq!(Client::new(&app, revision).result("ping", json!({})).await, json!({}));
    }
    Client::new(&app, MODERN).ask("ping", json!({})).await.refuses(404, -32601);
}

#[tokio::test]
async fn discover_tells_the_revisions_the_capabilities_and_who_answers() {
    let app = TestApp::new();
    let result = Client::new(&app, MODERN).result("server/discover", json!({})).await;
    assert_eq!(result["supportedVersions"], json!(handbill::http::metadata::MCP_PROTOCOL_VERSIONS));
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(3_600_000), &json!("public")));
    let identity = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(identity["name"], "example.pages/handbill");
    assert_eq!(identity["version"], env!("CARGO_PKG_VERSION"));
    let instructions = result["instructions"].as_str().unwrap();
    // A directory reads no further.
    let first: String = instructions.chars().take(512).collect();
    for told in [
        "public at once",
        "no secrets",
        "shown only then",
        "give it to the user",
        "never publish it",
        "written by strangers",
    ] {
        assert!(first.contains(told), "{told}: {first}");
    }
    assert!(instructions.contains("retry_after"));
}

#[tokio::test]
async fn the_revisions_of_the_tests_are_those_that_are_spoken() {
    let mut spoken = handbill::http::metadata::MCP_PROTOCOL_VERSIONS;
    spoken.reverse();
    assert_eq!(spoken, REVISIONS);
}
