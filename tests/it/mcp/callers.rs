//! The hosts and origins that may call the tools (contract, decision 16).

use serde_json::json;

use super::client::post;
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::Request;
use crate::in_process::stores::{Fault, Operation};

fn ping() -> Request {
    post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string())
}

fn by_host(host: &str) -> Request {
    ping().without("host").header("host", host)
}

fn preflight(origin: &str) -> Request {
    Request::new("OPTIONS", "/mcp")
        .header("host", "pages.example")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,mcp-protocol-version,mcp-method,mcp-name")
}

#[tokio::test]
async fn only_the_host_of_the_base_url_and_allowed_hosts_may_be_named() {
    let app = Setup::new().mcp_allows(&["handbill", "pages.internal:8443"], &[]).start();
    for host in ["pages.example", "Pages.Example", "pages.example:8080", "handbill:8080", "pages.internal:8443"] {
        app.send(by_host(host)).await.expect_status(200);
    }
    for host in ["evil.example", "pages.example.evil.example", "localhost", "127.0.0.1:8080", "pages.internal:8080"] {
        app.send(by_host(host)).await.expect_status(403);
    }
    app.send(by_host("a b")).await.expect_status(400);
    app.send(ping().without("host")).await.expect_status(400);
}

#[tokio::test]
async fn only_pages_of_the_base_url_and_of_allowed_origins_may_call() {
    let app = Setup::new().mcp_allows(&[], &["https://agents.example", "http://localhost:6274"]).start();
    for origin in ["https://pages.example", "https://agents.example", "http://localhost:6274"] {
        let answer = app.send(ping().header("origin", origin)).await;
        assert_eq!(answer.expect_status(200).header("access-control-allow-origin"), origin);
        assert!(answer.members("vary").contains(&"origin".to_owned()), "{answer:?}");
        let exposed = answer.members("access-control-expose-headers");
        assert!(exposed.contains(&"retry-after".to_owned()) && exposed.contains(&"x-request-id".to_owned()));
    }
    for origin in [
        "https://evil.example",
        "http://pages.example",
        "https://pages.example:8443",
        "https://pages.example.evil.example",
        "http://localhost:6275",
        "null",
        "nonsense",
        "",
    ] {
        let answer = app.send(ping().header("origin", origin)).await;
        answer.expect_status(403);
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{answer:?}");
    }
    let answer = app.send(ping()).await;
    assert!(!answer.expect_status(200).headers.contains_key("access-control-allow-origin"), "it is no browser");
}

#[tokio::test]
async fn at_a_loopback_base_url_every_loopback_name_will_do() {
    for base_url in ["http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080", "http://0.0.0.0:8080"] {
        let app = Setup::new().base_url(base_url).start();
        for host in ["localhost", "localhost:9999", "127.0.0.1:8080", "[::1]:8080"] {
            app.send(by_host(host)).await.expect_status(200);
        }
        for origin in ["http://localhost:6274", "http://127.0.0.1", "https://[::1]:1"] {
            app.send(by_host("localhost").header("origin", origin)).await.expect_status(200);
        }
        for name in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"] {
            app.send(by_host(name)).await.expect_status(403);
            let request = by_host("localhost").header("origin", format!("http://{name}"));
            app.send(request).await.expect_status(403);
        }
        app.send(by_host("localhost").header("origin", "null")).await.expect_status(403);
    }
}

#[tokio::test]
async fn a_preflight_allows_the_protocols_headers_to_allowed_origins() {
    let app = Setup::new().mcp_allows(&[], &["https://agents.example"]).start();
    for origin in ["https://pages.example", "https://agents.example"] {
        let answer = app.send(preflight(origin)).await;
        assert!([200, 204].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), origin);
        assert_eq!(answer.members("access-control-allow-methods"), ["post"]);
        let headers = answer.members("access-control-allow-headers");
        for header in ["accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"] {
            assert!(headers.contains(&header.to_owned()), "{header} is not in {headers:?}");
        }
    }
    for origin in ["https://evil.example", "null"] {
        let answer = app.send(preflight(origin)).await;
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_page_that_may_call_may_read_every_error() {
    let (app, page) = TestApp::with_page().await;
    let origin = "https://pages.example";
    let from_a_page = |request: Request| request.header("origin", origin);
    for (status, request) in [
        (400, post("nonsense")),
        (400, ping().query("key=x")),
        (405, Request::get("/mcp").header("host", "pages.example")),
        (406, ping().without("accept").header("accept", "text/html")),
        (413, post(" ".repeat(131_073))),
        (431, ping().header("x-long", "x".repeat(40_000))),
        (431, ping().query(&"q".repeat(40_000))),
    ] {
        let answer = app.send(from_a_page(request)).await;
        assert_eq!(answer.expect_status(status).header("access-control-allow-origin"), origin, "{answer:?}");
    }
    app.store.next(Operation::Lookup, Fault::Panic);
    let call = json!({"name": "get_page", "arguments": {"slug": page.slug}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let answer = app.send(from_a_page(post(call.to_string()))).await;
    assert_eq!(answer.header("access-control-allow-origin"), origin, "{answer:?}");
}
