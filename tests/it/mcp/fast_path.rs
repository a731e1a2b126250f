//! Calls of `get_page` whose page is ready are answered before the router and its layers, byte for byte as the router
//! answers them.

use serde_json::{Value, json};

use super::client::{Client, post};
use crate::in_process::app::TestApp;
use crate::in_process::both_ways::{assert_same, both_ways};
use crate::support::calls::Published;
use crate::support::exchange::Request;
use crate::support::revision::REVISIONS;

async fn assert_same_both_ways(app: &TestApp, request: impl Fn() -> Request, what: &str) {
    let (ready, routed) = both_ways(app, request).await;
    assert_same(&ready, &routed, what);
}

/// Arguments of `get_page`, right and wrong.
fn arguments(page: &Published, gone: &Published) -> Vec<Value> {
    let slug = &page.slug;
    vec![
        json!({"slug": slug}),
        json!({"slug": slug, "include_html": true}),
        json!({"slug": slug, "include_html": false}),
        json!({"slug": slug, "include_html": null, "offset": null}),
        json!({"slug": slug, "include_html": "no"}),
        json!({"slug": slug, "offset": 3}),
        json!({"slug": slug, "offset": 1, "max_chars": 2, "include_html": false}),
        json!({"slug": slug, "max_chars": 0}),
        json!({"slug": slug, "include_content": false}),
        json!({"slug": slug, "edit_key": page.key}),
        json!({"slug": format!(" /{slug}.md ")}),
        json!({"slug": format!("https://pages.example/{slug}")}),
        json!({"slug": format!("https://elsewhere.example/{slug}")}),
        json!({"slug": slug.to_uppercase()}),
        json!({"slug": "nothing-2222bbbb"}),
        json!({"slug": gone.slug}),
        json!({"slug": 7}),
        json!({"slug": null}),
        json!({}),
        json!([slug]),
        json!(null),
    ]
}

/// Messages that are no ordinary call, but name the tool.
fn messages(slug: &str) -> Vec<String> {
    let call = json!({"name": "get_page", "arguments": {"slug": slug}});
    let whole = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}).to_string();
    let mut messages: Vec<String> = [json!(1), json!("get_page"), json!(null), json!(1.5)].map(whole).to_vec();
    messages.extend([
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": call}).to_string(),
        json!({"jsonrpc": "1.0", "id": 1, "method": "tools/call", "params": call}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "get_page"}}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "get_page", "params": call}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "result": call}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_pages"}}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "delete_page", "arguments":
            {"slug": slug, "edit_key": "get_page"}}})
        .to_string(),
        json!([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}]).to_string(),
        whole(json!(1)).replacen("\"id\"", "\"id\":2,\"id\"", 1),
        whole(json!(1)).replacen("\"slug\"", "\"slug\":\"a\",\"slug\"", 1),
        whole(json!(1)).replacen("\"name\"", "\"_meta\":7,\"name\"", 1),
        whole(json!(1)).replacen("\"name\"", "\"_meta\":{\"progressToken\":1},\"name\"", 1),
        whole(json!(1)) + "}",
        whole(json!(1)) + &" ".repeat(5000),
        whole(json!(1)) + &" ".repeat(200_000),
        "get_page".to_owned(),
        String::new(),
    ]);
    messages
}

type Change = fn(Request) -> Request;

/// Changes of a request that is right.
const VARIATIONS: &[(&str, Change)] = &[
    ("nothing", |request| request),
    ("the origin of the service", |request| request.header("origin", "https://pages.example")),
    ("another origin", |request| request.header("origin", "https://elsewhere.example")),
    ("another host", |request| request.without("host").header("host", "elsewhere.example")),
    ("two hosts", |request| request.header("host", "elsewhere.example")),
    ("no host", |request| request.without("host")),
    ("no type", |request| request.without("content-type")),
    ("another type", |request| request.without("content-type").header("content-type", "text/plain")),
    ("a type of JSON", |request| request.without("content-type").header("content-type", "application/a+json")),
    ("a coding", |request| request.header("content-encoding", "gzip")),
    ("compressed answers", |request| request.header("accept-encoding", "gzip")),
    ("HTML", |request| request.without("accept").header("accept", "text/html")),
    ("anything", |request| request.without("accept").header("accept", "*/*;q=0.1")),
    ("a transfer coding", |request| request.header("transfer-encoding", "gzip")),
    ("an expectation", |request| request.header("expect", "100-continue")),
    ("another method", |request| request.without("mcp-method").header("mcp-method", "tools/list")),
    ("another tool", |request| request.without("mcp-name").header("mcp-name", "delete_page")),
    ("another revision", |request| {
        request.without("mcp-protocol-version").header("mcp-protocol-version", "2099-01-01")
    }),
    ("a trace", |request| request.header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
    ("a key", |request| request.header("authorization", "Bearer nothing")),
    ("a large head", |request| request.header("x-large", "a".repeat(40_000))),
];

#[tokio::test]
async fn a_call_that_is_ready_is_answered_as_the_router_answers_it() {
    let app = TestApp::new();
    let gone = app.deleted().await;
    for content in ["A *first* page.", "[A link](https://elsewhere.example/) and \"words\"."] {
        let page = app.publish("Hello, world", content).await;
        for client in Client::each(&app) {
            for arguments in arguments(&page, &gone) {
                let call = json!({"name": "get_page", "arguments": arguments});
                assert_same_both_ways(&app, || client.request("tools/call", call.clone()), &call.to_string()).await;
            }
            let call = json!({"name": "get_page", "arguments": {"slug": page.slug}});
            for (what, change) in VARIATIONS {
                assert_same_both_ways(&app, || change(client.request("tools/call", call.clone())), what).await;
            }
        }
        for message in messages(&page.slug) {
            assert_same_both_ways(&app, || post(message.clone()), &message[..message.len().min(200)]).await;
        }
        for target in ["/mcp/", "/mcp?a=b", &format!("/mcp?key=hbk_{}", "a".repeat(43)), "/api/pages"] {
            for method in ["POST", "GET", "PUT", "OPTIONS"] {
                let call = messages(&page.slug).swap_remove(0);
                let request = || Request::new(method, target).header("host", "pages.example").json(call.clone());
                assert_same_both_ways(&app, request, &format!("{method} {target}")).await;
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_is_ready_is_counted_like_any_other() {
    let app = TestApp::new();
    let client = Client::new(&app, REVISIONS[0]);
    let page = app.published().await;
    let call = |arguments: Value| client.ask("tools/call", json!({"name": "get_page", "arguments": arguments}));
    for _ in 0..4 {
        call(json!({"slug": page.slug})).await.expect_status(200);
    }
    call(json!({"slug": page.slug, "offset": -1})).await.expect_status(200);
    let scrape = app.metrics.exposition();
    for line in [
        "http_server_request_duration_seconds_count{http_request_method=\"POST\",http_route=\"/mcp\",http_response_status_code=\"200\",url_scheme=\"http\"} 5\n",
        "handbill_mcp_tool_calls_total{tool=\"get_page\",outcome=\"ok\"} 4\n",
        "handbill_mcp_tool_calls_total{tool=\"get_page\",outcome=\"invalid_body\"} 1\n",
        "handbill_page_cache_hits_total 4\n",
        "handbill_page_cache_misses_total 1\n",
    ] {
        assert!(scrape.contains(line), "{line}{scrape}");
    }
}
