//! Calls from pages on other sites (contract, decision 16).
//!
//! `TestApp::send` checks on every answer that it carries `Access-Control-Allow-Origin: *` and no credentials.

use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::{Request, TOKEN};

const ORIGIN: &str = "https://elsewhere.example";

fn preflight(path: &str, method: &str) -> Request {
    Request::new("OPTIONS", path)
        .header("origin", ORIGIN)
        .header("access-control-request-method", method)
        .header("access-control-request-headers", "authorization,content-type,if-match")
}

#[tokio::test]
async fn a_preflight_names_the_methods_and_headers_of_the_api() {
    let app = TestApp::new();
    for (path, method) in [
        ("/api/pages", "POST"),
        ("/api/pages/hello-2222bbbb", "PATCH"),
        ("/api/pages/hello-2222bbbb", "DELETE"),
        ("/hello-2222bbbb", "GET"),
    ] {
        let answer = app.send(preflight(path, method)).await;
        assert!([200, 204].contains(&answer.status), "{answer:?}");
        let methods = answer.members("access-control-allow-methods");
        for method in ["get", "post", "patch", "delete"] {
            assert!(methods.contains(&method.to_owned()), "{methods:?}");
        }
        let headers = answer.members("access-control-allow-headers");
        for header in ["authorization", "content-type", "if-match", "if-none-match"] {
            assert!(headers.contains(&header.to_owned()), "{headers:?}");
        }
    }
}

#[tokio::test]
async fn a_preflight_spends_no_quota() {
    let (app, page) = Setup::new().limits(2, 1).token_limit(1).start_with_page().await;
    for _ in 0..5 {
        app.send(preflight(TOKEN, "POST")).await;
        app.send(preflight("/api/pages", "POST")).await;
        app.send(preflight(&format!("/api/pages/{}", page.slug), "PATCH")).await;
    }
    app.published().await;
    app.update(&page, json!({})).await.expect_status(200);
    app.send(Request::token("")).await.expect_status(400);
}

#[tokio::test]
async fn a_page_on_another_site_may_read_the_tags_and_the_limits() {
    let app = TestApp::new();
    let request = Request::create(r#"{"title": "T", "content": "c"}"#).header("origin", ORIGIN);
    let exposed = app.send(request).await.members("access-control-expose-headers");
    for header in ["etag", "location", "retry-after", "ratelimit", "ratelimit-policy", "www-authenticate"] {
        assert!(exposed.contains(&header.to_owned()), "{header} is not in {exposed:?}");
    }
}
