//! The content of each document by which others find the service, as its standard demands (spec §4.7).

use serde_json::json;

use super::discovery::{AGENT_CARD, AUTHORIZATION_SERVER, CARD, PROTECTED_RESOURCE, WELL_KNOWN_CARD, json};
use crate::support::app::{BASE_URL, TestApp};
use crate::support::exchange::Request;

#[tokio::test]
async fn both_addresses_of_the_server_card_have_the_same_card() {
    let app = TestApp::new();
    assert_eq!(app.get(WELL_KNOWN_CARD).await.body, app.get(CARD).await.body);
}

#[tokio::test]
async fn the_server_card_says_where_and_how_mcp_is_spoken() {
    let card = json(CARD).await;
    let remote = &card["remotes"][0];
    assert_eq!(remote["type"], "streamable-http");
    assert_eq!(remote["url"], format!("{BASE_URL}/mcp"));
    let versions = json!(["2025-06-18", "2025-11-25", "2026-07-28"]);
    assert_eq!(remote["supportedProtocolVersions"], versions);
    // The older convention, which scanners look for.
    assert_eq!(card["serverInfo"], json!({"name": card["name"], "title": card["title"], "version": card["version"]}));
    assert_eq!(card["transport"], json!({"type": remote["type"], "endpoint": remote["url"]}));
    assert_eq!(card["protocolVersion"], versions[2]);
    assert_eq!(card["capabilities"], json!({"tools": {}}));
}

#[tokio::test]
async fn the_authorization_server_has_the_one_grant() {
    let expected = json!({
        "issuer": BASE_URL,
        "token_endpoint": format!("{BASE_URL}/oauth/token"),
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": ["none"],
        "scopes_supported": ["post:edit", "post:delete"],
        "protected_resources": [BASE_URL],
        "service_documentation": format!("{BASE_URL}/llms.txt"),
    });
    assert_eq!(json(AUTHORIZATION_SERVER).await, expected);
}

#[tokio::test]
async fn the_protected_resource_takes_keys_in_the_header_only() {
    let expected = json!({
        "resource": BASE_URL,
        "authorization_servers": [BASE_URL],
        "scopes_supported": ["post:edit", "post:delete"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Handbill",
        "resource_documentation": format!("{BASE_URL}/llms.txt"),
    });
    assert_eq!(json(PROTECTED_RESOURCE).await, expected);
}

#[tokio::test]
async fn a_well_known_document_that_does_not_exist_is_404_in_json() {
    let app = TestApp::new();
    for path in [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
        "/.well-known/mcp",
        "/oauth/register",
        "/mcp/other",
    ] {
        app.get(path).await.expect_error(404, "not_found");
        app.send(Request::get(path).header("accept", "text/html,*/*;q=0.8")).await.expect_error(404, "not_found");
    }
}

#[tokio::test]
async fn the_agent_card_names_no_binding_of_a2a() {
    let card = json(AGENT_CARD).await;
    assert!(card["description"].as_str().unwrap().contains("Not a conversational agent"), "{card}");
    for interface in card["supportedInterfaces"].as_array().unwrap() {
        let binding = interface["protocolBinding"].as_str().unwrap();
        assert!(binding.starts_with("https://modelcontextprotocol.io/"), "{binding}");
    }
    for capability in ["streaming", "pushNotifications", "extendedAgentCard"] {
        assert_eq!(card["capabilities"][capability], false);
    }
}

#[tokio::test]
async fn the_agent_card_asks_for_a_key_where_the_api_does() {
    let card = json(AGENT_CARD).await;
    for skill in card["skills"].as_array().unwrap() {
        let needed = skill["securityRequirements"].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<&String> =
            needed.iter().flat_map(|requirement| requirement["schemes"].as_object().unwrap().keys()).collect();
        let changes = ["update_page", "delete_page"].contains(&skill["id"].as_str().unwrap());
        assert_eq!(names, if changes { vec!["editKey", "pageToken"] } else { vec![] }, "{skill}");
        assert!(names.iter().all(|name| card["securitySchemes"][name.as_str()].is_object()), "{skill}");
    }
}
