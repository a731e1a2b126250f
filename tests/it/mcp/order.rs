//! If a call has several errors, a tool reports the error that REST would report (contract, decision 1).

use serde_json::{Value, json};

use super::client::{Client, MODERN};
use crate::in_process::app::Setup;
use crate::in_process::exchange::NEVER_USED;

/// Calls with errors of the key, in the order in which they are answered.
fn faults(slug: &str, wrong_key: &str) -> [Value; 3] {
    [json!({"slug": slug}), json!({"slug": slug, "edit_key": wrong_key}), json!({"slug": slug, "edit_key": "nonsense"})]
}

/// `arguments`, and the same with further invalid ones.
fn misshapen(arguments: &Value, tool: &str) -> Vec<Value> {
    let mut unknown = arguments.clone();
    unknown["unknown"] = json!(1);
    let mut all = vec![arguments.clone(), unknown];
    if tool == "update_page" {
        for content in [json!(7), json!(""), json!("a".repeat(102_401))] {
            let mut wrong = arguments.clone();
            wrong["content"] = content;
            all.push(wrong);
        }
    }
    all
}

#[tokio::test]
async fn a_rate_limit_comes_before_everything_but_an_impossible_slug() {
    let app = Setup::new().limits(100, 1).start();
    let deleted = app.deleted().await;
    let page = app.published().await;
    for client in Client::each(&app) {
        for tool in ["update_page", "delete_page"] {
            for slug in [NEVER_USED, &deleted.slug, &page.slug] {
                for arguments in faults(slug, &deleted.key).iter().flat_map(|fault| misshapen(fault, tool)) {
                    client.call(tool, arguments).await.expect_error(429, "rate_limited");
                }
            }
            client.call(tool, json!({"slug": "noslug", "edit_key": page.key})).await.expect_error(404, "not_found");
            client.call(tool, json!({"edit_key": page.key})).await.expect_error(400, "invalid_body");
        }
    }
    app.read(&page.slug).await.expect_status(200);
}

#[tokio::test]
async fn existence_comes_before_the_options_of_a_read() {
    let app = Setup::unlimited().start();
    let (deleted, page) = (app.deleted().await, app.published().await);
    for client in Client::each(&app) {
        for options in [json!({"include_html": "x"}), json!({"unknown": 1})] {
            let get = |slug: &str| {
                let mut arguments = options.clone();
                arguments["slug"] = json!(slug);
                client.call("get_page", arguments)
            };
            get(NEVER_USED).await.expect_error(404, "not_found");
            get(&deleted.slug).await.expect_error(410, "gone");
            get(&page.slug).await.expect_error(400, "invalid_body");
        }
    }
}

#[tokio::test]
async fn existence_comes_before_the_key_and_the_other_arguments() {
    let app = Setup::unlimited().start();
    let deleted = app.deleted().await;
    for client in Client::each(&app) {
        for tool in ["update_page", "delete_page"] {
            for (slug, status, code) in [(NEVER_USED, 404, "not_found"), (deleted.slug.as_str(), 410, "gone")] {
                for arguments in faults(slug, &deleted.key).iter().flat_map(|fault| misshapen(fault, tool)) {
                    client.call(tool, arguments).await.expect_error(status, code);
                }
            }
        }
    }
}

#[tokio::test]
async fn the_key_comes_before_the_other_arguments() {
    let app = Setup::unlimited().start();
    let (page, other) = (app.published().await, app.published().await);
    for client in Client::each(&app) {
        for tool in ["update_page", "delete_page"] {
            let codes = ["missing_key", "invalid_key", "invalid_key"];
            for (fault, code) in faults(&page.slug, &other.key).iter().zip(codes) {
                for arguments in misshapen(fault, tool) {
                    client.call(tool, arguments).await.expect_error(401, code);
                }
            }
        }
    }
    app.read(&page.slug).await.expect_status(200);
}

#[tokio::test]
async fn on_create_the_arguments_come_before_the_rate_limit() {
    let app = Setup::new().limits(1, 60).start();
    app.published().await;
    for client in Client::each(&app) {
        client.call("create_page", json!({"title": "T", "content": "c"})).await.expect_error(429, "rate_limited");
        client.call("create_page", json!({"title": "T"})).await.expect_error(400, "invalid_body");
        client.call("create_page", json!({"title": "T", "content": ""})).await.expect_error(400, "empty_content");
        let large = json!({"title": "T", "content": "a".repeat(102_401)});
        client.call("create_page", large).await.expect_error(413, "content_too_large");
    }
}

#[tokio::test]
async fn calls_by_tool_and_by_rest_are_counted_together() {
    let app = Setup::new().limits(4, 5).start();
    let clients: Vec<_> = Client::each(&app).collect();
    for client in &clients {
        client.published().await;
    }
    let page = app.published().await;
    let create = json!({"title": "T", "content": "c"});
    for client in &clients {
        let failed = client.call("create_page", create.clone()).await.expect_error(429, "rate_limited");
        assert_eq!(failed.retry_after, 3600);
        assert!(failed.message.contains("in 3600 seconds"), "{failed:?}");
    }
    app.create(create.to_string()).await.expect_error(429, "rate_limited");
    clients[0].clone().peer("192.0.2.2").published().await;

    let (client, slug) = (&clients[0], &page.slug);
    let own = json!({"slug": slug, "edit_key": page.key});
    client.call("update_page", own.clone()).await.done();
    client.call("update_page", json!({"slug": slug})).await.expect_error(401, "missing_key");
    client.call("delete_page", json!({"slug": NEVER_USED})).await.expect_error(404, "not_found");
    let unknown = json!({"slug": slug, "edit_key": page.key, "sure": true});
    client.call("delete_page", unknown).await.expect_error(400, "invalid_body");
    app.update(&page, json!({})).await.expect_status(200);
    client.call("update_page", own.clone()).await.expect_error(429, "rate_limited");
    client.call("delete_page", own).await.expect_error(429, "rate_limited");
    app.delete(&page).await.expect_error(429, "rate_limited");
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
