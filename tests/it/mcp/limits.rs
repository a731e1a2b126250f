//! The rate limits, which tools and REST share.

use serde_json::json;

use super::client::Client;
use crate::in_process::app::Setup;
use crate::support::exchange::Request;
use crate::support::revision::MODERN;

#[tokio::test]
async fn creates_by_tool_and_by_rest_are_counted_together() {
    let app = Setup::new().start();
    let clients: Vec<_> = Client::each(&app).collect();
    for call in 0..10 {
        match call % (clients.len() + 1) {
            rest if rest == clients.len() => {
                app.create(r#"{"title": "T", "content": "c"}"#).await.expect_status(201).status
            }
            revision => clients[revision].published().await.0.len().try_into().unwrap(),
        };
    }
    for client in &clients {
        let create = json!({"title": "T", "content": "c"});
        let failed = client.call("create_page", create).await.expect_error(429, "rate_limited");
        assert_eq!(failed.retry_after, 3600);
        assert!(failed.message.contains("in 3600 seconds"), "{failed:?}");
    }
    app.create(r#"{"title": "T", "content": "c"}"#).await.expect_error(429, "rate_limited");
    clients[0].clone().peer("192.0.2.2").published().await;
}

#[tokio::test]
async fn updates_and_deletes_by_tool_and_rest_are_counted_together() {
    let app = Setup::new().limits(10, 5).start();
    let client = Client::new(&app, MODERN);
    let (slug, key) = client.published().await;
    let own = json!({"slug": slug, "edit_key": key});
    client.call("update_page", own.clone()).await.done();
    client.call("update_page", json!({"slug": slug})).await.expect_error(401, "missing_key");
    client.call("delete_page", json!({"slug": "never-was-2222bbbb"})).await.expect_error(404, "not_found");
    client
        .call("delete_page", json!({"slug": slug, "edit_key": key, "sure": true}))
        .await
        .expect_error(400, "invalid_body");
    app.send(Request::update(&slug, "{}").key(&key)).await.expect_status(200);
    client.call("update_page", own.clone()).await.expect_error(429, "rate_limited");
    client.call("delete_page", own).await.expect_error(429, "rate_limited");
    app.send(Request::delete(&slug).key(&key)).await.expect_error(429, "rate_limited");
    client.call("get_page", json!({"slug": slug})).await.done();
}

#[tokio::test]
async fn behind_a_trusted_proxy_its_client_is_counted() {
    let app = Setup::new().limits(1, 60).trusted_proxies(&["10.0.0.0/8"]).start();
    let client = Client::new(&app, MODERN).peer("10.0.0.1");
    let create = json!({"name": "create_page", "arguments": {"title": "T", "content": "c"}});
    for (address, is_refused) in [("198.51.100.7", false), ("198.51.100.7", true), ("198.51.100.8", false)] {
        let request = client.request("tools/call", create.clone()).header("x-forwarded-for", address);
        let result = app.send(request).await.json()["result"].clone();
        assert_eq!(result["isError"], json!(is_refused), "{address}: {result}");
    }
}
