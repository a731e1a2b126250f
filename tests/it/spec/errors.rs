//! Errors of every route and method (spec §7; contract, decision 3).
//!
//! `TestApp::send` checks that every error is JSON with its code and a message, except on the pages for people.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use handbill::http::error::Code;
use handbill_pages::service::PublishingPolicy;
use handbill_pages::values::blocklist::Blocklist;
use handbill_pages::values::title::MAX_CHARS;
use handbill_test_support::pages::new_key;
use serde_json::json;

use super::discovery::DOCUMENTS;
use crate::in_process::app::{BASE_URL, Published, Setup, TestApp};
use crate::in_process::document::DOCUMENT;
use crate::in_process::exchange::{Answer, Request, TOKEN};
use crate::in_process::stores::{Calls, Fault, Operation};

#[tokio::test]
async fn a_method_that_a_route_does_not_take_answers_405_with_allow() {
    let app = TestApp::new();
    let slug = app.published().await.slug;
    let before = app.read(&slug).await.body;
    // The document has every route of the API.
    let mut routes: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (method, template, _) in DOCUMENT.operations() {
        let allowed = routes.entry(template.replace("{slug}", &slug)).or_default();
        allowed.extend([method].into_iter().chain((method == "get").then_some("head")));
    }
    let site = ["", ".md", "/edit"].map(|end| format!("/{slug}{end}"));
    let files = ["/help", "/pages", "/assets/0/editor.js", "/robots.txt", "/favicon.ico"].map(str::to_owned);
    for path in site.into_iter().chain(files).chain(DOCUMENTS.map(|(path, _)| path.to_owned())) {
        routes.insert(path, BTreeSet::from(["get", "head"]));
    }
    routes.insert("/".to_owned(), BTreeSet::from(["get", "head", "post"]));
    for (path, allowed) in routes {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "BREW"] {
            if allowed.contains(&*method.to_ascii_lowercase()) {
                continue;
            }
            let answer = app.send(Request::new(method, &path)).await;
            let allow = answer.expect_status(405).members("allow");
            let allow: BTreeSet<_> = allow.iter().map(String::as_str).filter(|method| *method != "options").collect();
            assert_eq!(allow, allowed, "{method} {path}");
            let kept = if path == TOKEN { "no-store" } else { "no-cache" };
            assert_eq!(answer.header("cache-control"), kept, "{method} {path}: a cache may keep a 405 unasked");
            if method != "HEAD" {
                let message = answer.expect_error(405, "method_not_allowed").field("message");
                assert_eq!(message.contains("PATCH to change it"), path.starts_with("/api/pages/"), "{message}");
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
async fn malformed_percent_encoding_answers_404_and_reaches_no_store() {
    let app = TestApp::new();
    for path in
        ["/api/pages/%", "/api/pages/%2", "/api/pages/%zz", "/api/pages/%ff", "/%zz.md", "/x/%zz", "/assets/%zz"]
    {
        app.get(path).await.expect_error(404, "not_found");
    }
    app.send(Request::update("%zz", "{}")).await.expect_error(404, "not_found");
    app.send(Request::delete("%ff")).await.expect_error(404, "not_found");
    app.get("/%zz").await.expect_status(404);
    assert_eq!(app.store.calls(), Calls::default());
}

#[tokio::test]
async fn a_head_of_over_16_kib_answers_431_on_every_route() {
    let (app, page) = TestApp::with_page().await;
    let before = app.page(&page.slug).await;
    for request in requests(&page) {
        app.send(request.header("x-long", "x".repeat(16 * 1024))).await.expect_error(431, "headers_too_large");
    }
    for request in requests(&page) {
        app.send(request.query(&"q".repeat(16 * 1024))).await.expect_error(431, "headers_too_large");
    }
    for request in requests(&page) {
        let many = (0..400).fold(request, |request, number| request.header(&format!("x-{number}"), "x".repeat(100)));
        app.send(many).await.expect_error(431, "headers_too_large");
    }
    let nearly = Request::get(format!("/api/pages/{}", page.slug)).header("x-long", "x".repeat(16 * 1024 - 512));
    app.send(nearly).await.expect_status(200);
    assert_eq!(app.page(&page.slug).await, before);
}

/// One request of each kind, which would be answered if its head were smaller.
fn requests(page: &Published) -> [Request; 7] {
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
async fn an_accept_header_changes_nothing_of_the_api() {
    let (app, page) = TestApp::with_page().await;
    for accept in ["text/html", "text/markdown", "application/xml", "nonsense", "*/*;q=0"] {
        let answer = app.send(Request::get(format!("/api/pages/{}", page.slug)).header("accept", accept)).await;
        assert_eq!(answer.expect_status(200).header("content-type"), "application/json");
        let answer = app.send(Request::get("/api/pages/x").header("accept", accept)).await;
        answer.expect_error(404, "not_found");
    }
}

#[tokio::test]
async fn a_400_names_the_field_or_header_and_says_why() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let update = |body: &str| Request::update(&page.slug, body.to_owned()).key(&page.key);
    let create = |body: &str| Request::create(body.to_owned());
    let long = json!({"title": "t".repeat(MAX_CHARS + 1), "content": "c"}).to_string();
    let holds_key = json!({"content": page.key}).to_string();
    for (request, named, why) in [
        (create(r#"{"content": "c"}"#), "`title`", "is missing"),
        (create(r#"{"title": "T"}"#), "`content`", "is missing"),
        (create(r#"{"title": null, "content": "c"}"#), "`title`", "is null"),
        (create(r#"{"title": "T", "content": null}"#), "`content`", "is null"),
        (create(r#"{"title": "T", "content": "c", "edit_key": null}"#), "`edit_key` is null", "Leave it out"),
        (create(" \n"), "The body is empty.", "Send one JSON object"),
        (create(r#"{"title": " ", "content": "c"}"#), "`title`", "is empty"),
        (create(r#"{"title": "T", "content": ""}"#), "`content`", "must not be empty"),
        (create(r#"{"title": 1, "content": "c"}"#), "`title`", "has the wrong type"),
        (create(r#"{"title": "T", "content": "c", "text": ""}"#), "`text`", "Unknown field"),
        (update(r#"{"Title": "T"}"#), "`Title`", "Unknown field"),
        (update(r#"{"content": ["c"]}"#), "`content`", "has the wrong type"),
        (create(r#"{"title": "T", "title": "T", "content": "c"}"#), "`title`", "is there twice"),
        (create(r#"{"title": "T", "content": "c", "\u0074itle": "U"}"#), "`title`", "is there twice"),
        (create(&long), "`title`", "is too long"),
        (create(r#"{"title": "a\u0007b", "content": "c"}"#), "`title`", "is not valid"),
        (create(r#"{"title": "T","#), "line 1, column", "is not valid JSON"),
        (create(r#"["T", "c"]"#), "`title`, `content` and `edit_key`", "has the wrong type"),
        (create("{}").without("content-type"), "`Content-Type: application/json`", "is not declared as JSON"),
        (create("{}").header("content-encoding", "gzip"), "`Content-Encoding`", "no encoding is understood"),
        (update(r#"{"content": null}"#), "`content`", "is null"),
        (update(r#"{"content": ""}"#), "`content`", "must not be empty, not even after `edits`"),
        (update(r#"{"if_updated_at": "x"}"#), "Unknown field `if_updated_at`", "`If-Match`"),
        (update(r#"{"edit_key": "x"}"#), "Unknown field `edit_key`", "`Authorization: Bearer <edit_key>`"),
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
async fn a_body_of_another_type_is_answered_with_the_form_that_works() {
    let (app, page) = TestApp::with_page().await;
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
fn the_document_of_the_api_lists_exactly_the_codes() {
    let codes: BTreeSet<_> = Code::all().map(|code| (code.as_str(), code.status())).collect();
    let docs = include_str!("../../../docs/api.md");
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let listed = rows.filter_map(|(names, rest)| Some((names, rest.get(..3)?.parse::<u16>().ok()?)));
    let listed = listed.flat_map(|(names, status)| names.split("`, `").map(move |name| (name, status)));
    assert_eq!(listed.collect::<BTreeSet<_>>(), codes, "docs/api.md");
}

/// An answer with each error, from a service with a page and a deleted page, and from one that has used up its limits.
async fn every_error() -> Vec<Answer> {
    let mut errors = Vec::new();
    let app = TestApp::new();
    let (page, deleted) = (app.published().await, app.deleted().await);
    let (slug, key) = (&page.slug, &page.key);
    let form = |form: &str| Request::token(form.to_owned());
    let with_a_key = |key: &str, content: &str| {
        Request::create(json!({"title": "T", "content": content, "edit_key": key}).to_string())
    };
    let new_key = new_key();
    app.send(with_a_key(&new_key, "first")).await.expect_status(201);
    let client = format!("client_id={slug}&client_secret={key}");
    for request in [
        Request::create("nonsense"),
        Request::create(r#"{"title": "T", "content": ""}"#),
        with_a_key(&new_key, "second"),
        Request::update(slug, "{}"),
        Request::update(slug, "{}").key("wrong"),
        Request::update(slug, "{}").query("key=x"),
        Request::get("/api/pages/never-was-2222bbbb"),
        Request::get("/no/such/route"),
        Request::new("PUT", "/api/pages"),
        Request::new("POST", format!("/api/pages/{slug}")),
        Request::get(format!("/api/pages/{}", deleted.slug)),
        Request::update(slug, "{}").key(key).header("if-match", "\"9-json-1\""),
        Request::create(json!({"title": "T", "content": "a".repeat(102_401)}).to_string()),
        Request::create(" ".repeat(131_073)),
        Request::get("/").header("x-long", "x".repeat(40_000)),
        form(""),
        form("grant_type=password"),
        form("grant_type=client_credentials"),
        form("grant_type=client_credentials&client_id=x&client_secret=y"),
        form(&format!("grant_type=client_credentials&scope=all&{client}")),
        form(&"x".repeat(131_073)),
        Request::get("/oauth/token"),
        Request::new("POST", "/").header("sec-fetch-site", "cross-site"),
    ] {
        errors.push(app.send(request).await);
    }
    for fault in [Fault::Panic, Fault::Unavailable, Fault::Unreadable, Fault::NotDoneAndUnknown] {
        app.store.next(Operation::Lookup, fault);
        errors.push(app.read(slug).await);
    }
    let policy = PublishingPolicy::default();
    policy.refuse(Blocklist::parse("spam.example", &[]).unwrap());
    let operated = Setup::new().policy(policy).start();
    errors.push(operated.create(r#"{"title": "T", "content": "https://spam.example/"}"#).await);
    let used_up = Setup::new().limits(1, 1).token_limit(1).start();
    let page = used_up.published().await;
    used_up.update(&page, json!({})).await.expect_status(200);
    used_up.send(form("")).await.expect_status(400);
    errors.push(used_up.create(r#"{"title": "T", "content": "c"}"#).await);
    errors.push(used_up.update(&page, json!({})).await);
    errors.push(used_up.send(form("")).await);
    tokio::time::pause();
    errors.push(app.create(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())).await);
    errors
}

/// What a client can be told to do next. A message has at least one of these.
const NEXT_STEPS: [&str; 11] = [
    " send ",
    " use ",
    " allowed: ",
    " remove ",
    " make ",
    " check ",
    " publish a ",
    " read the page ",
    " shorten ",
    " retry in ",
    " leave ",
];

#[tokio::test]
async fn every_error_says_by_its_message_alone_what_to_do_next() {
    let errors = every_error().await;
    let met: BTreeSet<String> = errors.iter().map(|answer| answer.field("error")).collect();
    assert_eq!(met, Code::all().map(|code| code.as_str().to_owned()).collect(), "every code was met");
    for answer in errors {
        let (code, message) = (answer.field("error"), answer.field("message"));
        let told = format!(" {}", message.to_lowercase());
        assert!(NEXT_STEPS.iter().any(|step| told.contains(step)), "{code}: {message:?} has none of NEXT_STEPS");
        match answer.status {
            401 => {
                let metadata = if code == "invalid_client" {
                    "/.well-known/oauth-authorization-server"
                } else {
                    let url = format!("resource_metadata=\"{BASE_URL}/.well-known/oauth-protected-resource\"");
                    assert!(answer.header("www-authenticate").contains(&url), "{answer:?}");
                    "/.well-known/oauth-protected-resource"
                };
                assert!(message.contains(&format!("`{metadata}`")), "{code}: {message}");
            }
            429 | 503 => {
                let seconds = answer.retry_after();
                assert!(message.contains(&format!("in {seconds} seconds")), "{code}: {message}");
            }
            _ => {}
        }
    }
}
