//! How the documents by which others find the service are served (spec §4.7), and what leads to them.

use serde_json::Value;

use crate::support::app::{BASE_URL, TestApp};
use crate::support::exchange::{Answer, Request};

pub(crate) const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
pub(crate) const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
pub(crate) const WELL_KNOWN_CARD: &str = "/.well-known/mcp/server-card.json";
pub(crate) const CARD: &str = "/mcp/server-card";
pub(crate) const AGENT_CARD: &str = "/.well-known/agent-card.json";
pub(crate) const LLMS: &str = "/llms.txt";

/// Every document, with its media type where the client asks for none.
pub(crate) const DOCUMENTS: [(&str, &str); 7] = [
    (AUTHORIZATION_SERVER, "application/json"),
    (PROTECTED_RESOURCE, "application/json"),
    (WELL_KNOWN_CARD, "application/json"),
    (CARD, "application/mcp-server-card+json"),
    (AGENT_CARD, "application/json"),
    ("/openapi.json", "application/json"),
    (LLMS, "text/plain; charset=utf-8"),
];

/// The document at `path`, of a service without any settings.
pub(crate) async fn json(path: &str) -> Value {
    let answer = TestApp::new().get(path).await;
    answer.expect_status(200).json()
}

#[tokio::test]
async fn every_document_has_its_type_and_may_be_kept_for_an_hour() {
    let app = TestApp::new();
    for (path, content_type) in DOCUMENTS {
        let answer = app.get(path).await;
        assert_eq!(answer.expect_status(200).header("content-type"), content_type, "{path}");
        assert_eq!(answer.header("cache-control"), "public, max-age=3600", "{path}");
        assert!(answer.members("access-control-expose-headers").contains(&"etag".to_owned()), "{path}");
        if content_type.ends_with("json") {
            assert!(answer.json().is_object(), "{path}");
        }
    }
}

#[tokio::test]
async fn another_method_answers_405_that_names_get_and_head() {
    let app = TestApp::new();
    for (path, _) in DOCUMENTS {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let answer = app.send(Request::new(method, path)).await;
            answer.expect_error(405, "method_not_allowed");
            assert_eq!(answer.members("allow"), ["get", "head"], "{path}");
            assert!(answer.field("message").contains("GET or HEAD"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn any_page_on_the_web_may_read_a_card() {
    let app = TestApp::new();
    for path in [WELL_KNOWN_CARD, CARD] {
        let answer = app.send(Request::get(path).header("origin", "https://elsewhere.example")).await;
        assert_eq!(answer.expect_status(200).members("access-control-allow-methods"), ["get"], "{path}");
        assert_eq!(answer.members("access-control-allow-headers"), ["content-type", "if-none-match"], "{path}");
        let preflight = Request::new("OPTIONS", path)
            .header("origin", "https://elsewhere.example")
            .header("access-control-request-method", "GET")
            .header("access-control-request-headers", "if-none-match");
        let answer = app.send(preflight).await;
        assert!(answer.members("access-control-allow-methods").contains(&"get".to_owned()), "{path}");
        assert!(answer.members("access-control-allow-headers").contains(&"if-none-match".to_owned()), "{path}");
    }
}

/// The targets of the links with this relation.
fn linked(answer: &Answer, rel: &str) -> Vec<String> {
    let lines = answer.headers.get_all("link").iter().map(|line| line.to_str().unwrap());
    let of_rel = lines.filter(|line| line.contains(&format!("rel=\"{rel}\"")));
    of_rel.map(|line| line.split(['<', '>']).nth(1).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_home_page_and_the_api_lead_to_the_openapi_document() {
    let app = TestApp::new();
    let page = app.published().await;
    let openapi = format!("{BASE_URL}/openapi.json");
    for (status, request) in [
        (200, Request::get("/")),
        (200, Request::get("/help")),
        (200, Request::get(format!("/api/pages/{}", page.slug))),
        (201, Request::create(r#"{"title": "T", "content": "c"}"#)),
        (400, Request::create("nonsense")),
        (401, Request::update(&page.slug, "{}")),
        (405, Request::get("/api/pages")),
        (404, Request::get("/api/pages/x")),
        (404, Request::get("/no/such/route")),
        (400, Request::token("")),
    ] {
        let answer = app.send(request).await;
        assert_eq!(linked(answer.expect_status(status), "service-desc"), [openapi.as_str()], "{answer:?}");
    }
    let home = app.get("/").await;
    assert_eq!(linked(&home, "service-doc"), [format!("{BASE_URL}/llms.txt")]);
}

#[tokio::test]
async fn a_page_leads_to_its_markdown() {
    let app = TestApp::new();
    let page = app.published().await;
    let answer = app.get(&format!("/{}", page.slug)).await;
    assert_eq!(linked(&answer, "alternate"), [format!("{BASE_URL}/{}.md", page.slug)]);
    assert!(linked(&answer, "service-desc").is_empty(), "a page is no interface: {answer:?}");
}
