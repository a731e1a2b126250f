//! Errors of every route and method (spec §7; contract, decision 3).
//!
//! `TestApp::send` checks that every error is JSON with its code and a message, except on the pages for people.

use handbill::http::error::Code;
use handbill_pages::values::title::MAX_CHARS;
use serde_json::json;

use crate::support::app::{Setup, TestApp};
use crate::support::calls::Published;
use crate::support::exchange::{CODES, Request};

#[tokio::test]
async fn a_method_that_a_route_does_not_take_answers_405_with_allow() {
    no_route_takes(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"]).await;
}

/// Fails unless each route takes only the methods that it is made for, and names these when it refuses others of
/// `methods`.
pub(crate) async fn no_route_takes(methods: &[&str]) {
    let app = TestApp::new();
    let slug = app.published().await.slug;
    let before = app.read(&slug).await.body;
    let routes = [
        ("/api/pages".to_owned(), ["post"].as_slice()),
        (format!("/api/pages/{slug}"), &["delete", "get", "head", "patch"]),
        (format!("/{slug}"), &["get", "head"]),
        (format!("/{slug}.md"), &["get", "head"]),
        ("/".to_owned(), &["get", "head", "post"]),
        ("/help".to_owned(), &["get", "head"]),
        (format!("/{slug}/edit"), &["get", "head"]),
        ("/assets/0/editor.js".to_owned(), &["get", "head"]),
        ("/robots.txt".to_owned(), &["get", "head"]),
        ("/openapi.json".to_owned(), &["get", "head"]),
        ("/favicon.ico".to_owned(), &["get", "head"]),
    ];
    for (path, allowed) in routes {
        for &method in methods {
            if allowed.contains(&method.to_ascii_lowercase().as_str()) {
                continue;
            }
            let answer = app.send(Request::new(method, &path)).await;
            let mut allow = answer.expect_status(405).members("allow");
            allow.retain(|method| method != "options");
            allow.sort();
            assert_eq!(allow, allowed, "{method} {path}");
            assert_eq!(answer.header("cache-control"), "no-cache", "{method} {path}: a cache may keep a 405 unasked");
            if method != "HEAD" {
                answer.expect_error(405, "method_not_allowed");
            }
        }
    }
    assert_eq!(app.read(&slug).await.body, before);
}

#[tokio::test]
async fn a_path_without_a_route_answers_404_with_every_method() {
    let app = TestApp::new();
    for path in [
        "/api",
        "/api/",
        "/api/pages/",
        "/api/pages/a/b",
        "/no/such/route",
        "/assets/",
        "/assets/style.css",
        "/assets/a/b/c",
        "//",
        "/a/b.md",
    ] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let answer = app.send(Request::new(method, path)).await;
            // One segment is where pages are, with their own methods and their own 404.
            if path == "/api" {
                assert!([404, 405].contains(&answer.status), "{answer:?}");
            } else {
                answer.expect_error(404, "not_found");
            }
        }
    }
}

#[tokio::test]
async fn malformed_percent_encoding_answers_404() {
    ask_in_malformed_percent_encoding(&TestApp::new()).await;
}

/// Fails unless every route that takes a name answers 404 to one that is badly encoded.
pub(crate) async fn ask_in_malformed_percent_encoding(app: &TestApp) {
    for path in
        ["/api/pages/%", "/api/pages/%2", "/api/pages/%zz", "/api/pages/%ff", "/%zz.md", "/x/%zz", "/assets/%zz"]
    {
        app.get(path).await.expect_error(404, "not_found");
    }
    app.send(Request::update("%zz", "{}")).await.expect_error(404, "not_found");
    app.send(Request::delete("%ff")).await.expect_error(404, "not_found");
    app.get("/%zz").await.expect_status(404);
}

#[tokio::test]
async fn a_head_of_over_16_kib_answers_431_on_every_route() {
    let app = TestApp::new();
    let page = app.published().await;
    let before = app.page(&page.slug).await;
    for request in requests(&page) {
        app.send(request.header("x-long", "x".repeat(16 * 1024))).await.expect_error(431, "headers_too_large");
    }
    for request in requests(&page) {
        app.send(request.query(&"q".repeat(16 * 1024))).await.expect_error(431, "headers_too_large");
    }
    assert_eq!(app.page(&page.slug).await, before);
}

/// One request of each kind, which would be answered if its head were smaller.
pub(crate) fn requests(page: &Published) -> [Request; 7] {
    [
        Request::create(r#"{"title": "T", "content": "c"}"#),
        Request::get(format!("/api/pages/{}", page.slug)),
        Request::update(&page.slug, r#"{"content": "new"}"#).key(&page.key),
        Request::delete(&page.slug).key(&page.key),
        Request::get(format!("/{}", page.slug)),
        Request::get("/"),
        Request::get("/no/such/route"),
    ]
}

#[tokio::test]
async fn a_head_of_nearly_16_kib_is_accepted() {
    let app = TestApp::new();
    let page = app.published().await;
    let request = Request::get(format!("/api/pages/{}", page.slug)).header("x-long", "x".repeat(16 * 1024 - 512));
    app.send(request).await.expect_status(200);
}

#[tokio::test]
async fn an_accept_header_changes_nothing_of_the_api() {
    let app = TestApp::new();
    let page = app.published().await;
    for accept in ["text/html", "text/markdown", "application/xml", "nonsense", "*/*;q=0"] {
        let answer = app.send(Request::get(format!("/api/pages/{}", page.slug)).header("accept", accept)).await;
        assert_eq!(answer.expect_status(200).header("content-type"), "application/json");
        let answer = app.send(Request::get("/api/pages/x").header("accept", accept)).await;
        answer.expect_error(404, "not_found");
    }
}

#[tokio::test]
async fn an_answer_that_depends_on_accept_says_so() {
    let app = TestApp::new();
    for path in ["/no/such/route", "/hello-2222bbbb", "/hello-2222bbbb.md", "/assets/none.css"] {
        let answer = app.get(path).await;
        assert!(answer.expect_status(404).members("vary").contains(&"accept".to_owned()), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn every_answer_has_an_id_to_find_it_by() {
    let app = TestApp::new();
    let page = app.published().await;
    let (one, two) = (app.read(&page.slug).await, app.update(&page, json!({"content": ""})).await);
    assert!(!one.header("x-request-id").is_empty());
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
}

#[tokio::test]
async fn a_400_names_the_field_or_header_and_says_why() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    let update = |body: &str| Request::update(&page.slug, body.to_owned()).key(&page.key);
    let create = |body: &str| Request::create(body.to_owned());
    let long = json!({"title": "t".repeat(MAX_CHARS + 1), "content": "c"}).to_string();
    let holds_key = json!({"content": page.key}).to_string();
    for (request, named, why) in [
        (create(r#"{"content": "c"}"#), "`title`", "is missing"),
        (create(r#"{"title": "T"}"#), "`content`", "is missing"),
        (create(r#"{"title": " ", "content": "c"}"#), "`title`", "is empty"),
        (create(r#"{"title": "T", "content": ""}"#), "`content`", "is empty"),
        (create(r#"{"title": 1, "content": "c"}"#), "`title`", "has the wrong type"),
        (create(r#"{"title": "T", "content": "c", "text": ""}"#), "`text`", "Unknown field"),
        (update(r#"{"Title": "T"}"#), "`Title`", "Unknown field"),
        (update(r#"{"content": ["c"]}"#), "`content`", "has the wrong type"),
        (create(r#"{"title": "T", "title": "T", "content": "c"}"#), "`title`", "is there twice"),
        // The same name, written with an escape.
        (create(r#"{"title": "T", "content": "c", "\u0074itle": "U"}"#), "`title`", "is there twice"),
        (create(&long), "`title`", "is too long"),
        (create(r#"{"title": "a\u0007b", "content": "c"}"#), "`title`", "is not valid"),
        (create(r#"{"title": "T","#), "line 1, column", "is not valid JSON"),
        (create(r#"["T", "c"]"#), "`title`, `content` and `edit_key`", "has the wrong type"),
        (create("{}").without("content-type"), "`Content-Type: application/json`", "is not declared as JSON"),
        (create("{}").header("content-encoding", "gzip"), "`Content-Encoding`", "no encoding is understood"),
        (update(r#"{"content": null}"#), "`content`", "is null"),
        (update(r#"{"content": ""}"#), "`content`", "is empty"),
        (update(&holds_key), "`content`", "contains the page's own edit key"),
        (
            Request::token("").without("content-type"),
            "`Content-Type: application/x-www-form-urlencoded`",
            "not declared",
        ),
        (Request::token("").header("content-encoding", "gzip"), "`Content-Encoding`", "no encoding is understood"),
        (Request::token("").query("client_id=x"), "`client_id`", "in the address"),
        (Request::token("scope=a&scope=b"), "`scope`", "is there twice"),
        (Request::token("scope="), "`grant_type`", "is missing"),
        (Request::token("grant_type=password"), "`grant_type`", "names another grant"),
    ] {
        let answer = app.send(request).await;
        let message = answer.expect_status(400).field("message");
        assert!(message.contains(named) && message.contains(why), "{named} {why}: {message}");
    }
}

#[tokio::test]
async fn a_404_and_a_410_in_json_are_revalidated() {
    let app = TestApp::new();
    let deleted = app.deleted().await;
    for (status, target) in [
        (404, "/api/pages/never-was-2222bbbb".to_owned()),
        (404, "/api/pages/noslug".to_owned()),
        (404, "/no/such/route".to_owned()),
        (410, format!("/api/pages/{}", deleted.slug)),
    ] {
        let answer = app.get(&target).await;
        assert_eq!(answer.expect_status(status).header("cache-control"), "no-cache", "{target}: {answer:?}");
    }
    let updated = app.update(&deleted, json!({})).await;
    assert_eq!(updated.expect_status(410).header("cache-control"), "no-cache");
}

#[tokio::test]
async fn a_body_of_another_type_is_answered_with_the_form_that_works() {
    let app = TestApp::new();
    let page = app.published().await;
    let typed = |request: Request| request.without("content-type").header("content-type", "text/plain");
    for request in [Request::create("A page."), Request::update(&page.slug, "A page.").key(&page.key)] {
        let message = app.send(typed(request)).await.expect_error(400, "invalid_body").field("message");
        let shown = &message[message.find('{').unwrap()..=message.find('}').unwrap()];
        assert!(message.contains("`Content-Type: application/json`"), "{message}");
        app.create(shown.to_owned()).await.expect_status(201);
        app.send(Request::update(&page.slug, shown.to_owned()).key(&page.key)).await.expect_status(200);
    }
}

#[test]
fn the_codes_and_their_statuses_are_those_of_the_contract() {
    let listed: Vec<_> = Code::all().map(|code| (code.as_str(), code.status())).collect();
    assert_eq!(listed, CODES);
    let docs = include_str!("../../../docs/api.md");
    for (code, status) in CODES {
        let row = docs.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{code}`")));
        assert!(row.is_some_and(|row| row.contains(&format!("| {status} |"))), "docs/api.md: {code}");
    }
}
