//! How clients of each revision begin.

use serde_json::json;

use super::client::Client;
use crate::in_process::app::TestApp;
use crate::support::revision::{LEGACY, MODERN, REVISIONS, UNNAMED, opening};

#[tokio::test]
async fn initialize_agrees_on_a_revision_that_has_a_handshake() {
    let app = TestApp::new();
    let [newest, _] = LEGACY;
    // 2025-03-26 obliges a server to take batches.
    let others = [MODERN, UNNAMED, "2024-11-05", "nonsense"].map(|revision| (revision, newest));
    for (revision, agreed) in LEGACY.map(|revision| (revision, revision)).into_iter().chain(others) {
        // A client that has agreed on nothing yet sends no header.
        let result = Client::new(&app, UNNAMED).result("initialize", opening(revision)).await;
        assert_eq!(result["protocolVersion"], agreed, "{revision}");
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        assert_eq!(result["serverInfo"]["name"], "example.pages/handbill");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["instructions"].as_str().unwrap().contains("edit_key"));
    }
}

#[tokio::test]
async fn discover_tells_the_revisions_and_who_answers() {
    let app = TestApp::new();
    let result = Client::new(&app, MODERN).result("server/discover", json!({})).await;
    let mut supported: Vec<String> = serde_json::from_value(result["supportedVersions"].clone()).unwrap();
    supported.sort_unstable();
    supported.reverse();
    assert_eq!(supported, REVISIONS);
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
