//! Which of several faults is answered (contract, decision 1).

use serde_json::json;

use crate::in_process::app::{Published, Setup, TestApp};
use crate::in_process::exchange::{NEVER_USED, Request};

const STALE: &str = "\"999-json-1\"";

fn too_large() -> String {
    " ".repeat(131_073)
}

/// A service whose client has no edits left, a page and a deleted page.
async fn exhausted() -> (TestApp, Published, Published) {
    let app = Setup::new().limits(10, 1).start();
    let (deleted, page) = (app.deleted().await, app.published().await);
    (app, page, deleted)
}

#[tokio::test]
async fn a_rate_limit_comes_before_everything_and_the_store() {
    let (app, page, deleted) = exhausted().await;
    let before = app.store.calls();
    let (slug, key) = (&page.slug, &page.key);
    for request in [
        Request::update(NEVER_USED, "{}").key(key),
        Request::delete(NEVER_USED).key(key),
        Request::update(&deleted.slug, "{}").key(&deleted.key),
        Request::delete(&deleted.slug).key(&deleted.key),
        Request::update(slug, "{}"),
        Request::delete(slug).key("wrong"),
        Request::delete(slug).query("key=x"),
        Request::update(slug, "nonsense").key(key),
        Request::update(slug, too_large()).key(key),
        Request::update(slug, "{}").key(key).header("if-match", STALE),
        Request::update(slug, "{}").key(key).header("if-none-match", "*"),
    ] {
        app.send(request).await.expect_error(429, "rate_limited");
    }
    assert_eq!(app.store.calls(), before);
}

#[tokio::test]
async fn a_malformed_slug_comes_before_the_rate_limit_and_the_store() {
    let (app, page, _) = exhausted().await;
    let before = app.store.calls();
    for request in [Request::update("no_slug", "{}"), Request::delete("noslug"), Request::delete("%zz")] {
        let answer = app.send(request.key(&page.key)).await;
        answer.expect_error(404, "not_found");
        assert!(!answer.headers.contains_key("ratelimit"), "{answer:?}");
    }
    assert_eq!(app.store.calls(), before);
}

#[tokio::test]
async fn existence_comes_before_401_and_400_and_413_and_412() {
    let app = TestApp::new();
    let deleted = app.deleted().await;
    let key = &deleted.key;
    for (slug, status, code) in [(NEVER_USED, 404, "not_found"), (deleted.slug.as_str(), 410, "gone")] {
        for request in [
            Request::update(slug, "{}"),
            Request::update(slug, "{}").key("wrong"),
            Request::update(slug, "{}").key(key).query("edit_key=x"),
            Request::update(slug, "nonsense").key(key),
            Request::update(slug, too_large()).key(key),
            Request::update(slug, "{}").key(key).header("if-match", "*"),
            Request::update(slug, "{}").key(key).header("if-none-match", "*"),
            Request::delete(slug),
            Request::delete(slug).key(key).header("if-match", STALE),
            Request::delete(slug).key(key).header("if-none-match", "*"),
        ] {
            app.send(request).await.expect_error(status, code);
        }
    }
}

#[tokio::test]
async fn existence_comes_before_a_key_in_the_query_of_a_read() {
    let app = TestApp::new();
    let deleted = app.deleted().await;
    let key = format!("key={}", deleted.key);
    for (slug, status) in [(NEVER_USED, 404), (&*deleted.slug, 410), ("no-slug", 404)] {
        for address in [format!("/api/pages/{slug}"), format!("/{slug}"), format!("/{slug}.md")] {
            app.send(Request::get(address).query(&key)).await.expect_status(status);
        }
    }
    // The page that edits a page is the same for every slug.
    app.send(Request::get("/no-slug/edit").query(&key)).await.expect_status(404);
    app.send(Request::get(format!("/{NEVER_USED}/edit")).query(&key)).await.expect_error(401, "key_in_query");
}

#[tokio::test]
async fn a_key_in_the_query_comes_before_a_wrong_method() {
    let (app, page) = TestApp::with_page().await;
    let of_page = ["", ".md", "/edit"].map(|end| ("POST", format!("/{}{end}", page.slug)));
    let of_api = [("GET", "/api/pages".to_owned()), ("POST", format!("/api/pages/{}", page.slug))];
    for (method, path) in of_page.into_iter().chain(of_api) {
        app.send(Request::new(method, &path)).await.expect_error(405, "method_not_allowed");
        let answer = app.send(Request::new(method, &path).query(&format!("a={}", page.key))).await;
        let status = if method == "POST" { 400 } else { 401 };
        assert_eq!(answer.expect_error(status, "key_in_query").header("cache-control"), "no-store", "{method} {path}");
    }
    // The endpoint of tokens has a rule of its own, and what is no page has none.
    for (method, path) in [("GET", "/oauth/token"), ("DELETE", "/")] {
        let request = Request::new(method, path).query(&format!("a={}", page.key));
        app.send(request).await.expect_error(405, "method_not_allowed");
    }
}

#[tokio::test]
async fn a_key_in_the_query_of_a_create_comes_first_and_uses_no_quota() {
    let app = Setup::new().limits(2, 60).start();
    let key = format!("key={}", app.published().await.key);
    for body in ["nonsense".to_owned(), too_large(), r#"{"title": "T", "content": "c"}"#.to_owned()] {
        app.send(Request::create(body.clone()).query(&key)).await.expect_error(400, "key_in_query");
        for query in [&key, &key.replace("key=", "title=")] {
            let raw = Request::new("POST", "/").query(query).header("content-type", "text/markdown");
            let raw = raw.header("accept", "application/json").body(body.clone());
            app.send(raw).await.expect_error(400, "key_in_query");
        }
    }
    app.published().await;
    let create = Request::create(r#"{"title": "T", "content": "c"}"#);
    app.send(create.query(&key)).await.expect_error(400, "key_in_query");
    app.create(r#"{"title": "T", "content": "c"}"#).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn a_credential_comes_before_400_and_413_and_412() {
    let (app, page) = TestApp::with_page().await;
    let large_content = json!({"content": "a".repeat(102_401)}).to_string();
    for body in ["nonsense".to_owned(), too_large(), large_content, r#"{"content": ""}"#.to_owned()] {
        app.send(Request::update(&page.slug, body.clone())).await.expect_error(401, "missing_key");
        app.send(Request::update(&page.slug, body.clone()).key("wrong")).await.expect_error(401, "invalid_key");
        let with_both = Request::update(&page.slug, body).key(&page.key).query("key=x");
        app.send(with_both).await.expect_error(401, "key_in_query");
    }
    app.send(Request::update(&page.slug, "{}").header("if-match", STALE)).await.expect_error(401, "missing_key");
    app.send(Request::delete(&page.slug).header("if-match", STALE)).await.expect_error(401, "missing_key");
    app.send(Request::update(&page.slug, "{}").header("if-none-match", "*")).await.expect_error(401, "missing_key");
    let delete = Request::delete(&page.slug).key("wrong").header("if-none-match", "*");
    app.send(delete).await.expect_error(401, "invalid_key");
}

#[tokio::test]
async fn a_body_comes_before_412() {
    let (app, page) = TestApp::with_page().await;
    let large_content = json!({"content": "a".repeat(102_401)}).to_string();
    let bodies = [
        ("nonsense".to_owned(), 400, "invalid_body"),
        (r#"{"content": ""}"#.to_owned(), 400, "empty_content"),
        (json!({"content": page.key}).to_string(), 400, "invalid_body"),
        (too_large(), 413, "body_too_large"),
        (large_content, 413, "content_too_large"),
    ];
    for (body, status, code) in bodies {
        for (name, tags) in [("if-match", STALE), ("if-none-match", "*")] {
            let request = Request::update(&page.slug, body.clone()).key(&page.key).header(name, tags);
            app.send(request).await.expect_error(status, code);
        }
    }
}

#[tokio::test]
async fn on_create_the_body_comes_before_the_rate_limit_and_spends_no_quota() {
    let app = Setup::new().limits(1, 60).start();
    for is_over_the_limit in [false, true] {
        for (body, status, code) in [
            ("nonsense".to_owned(), 400, "invalid_body"),
            (r#"{"title": "", "content": "c"}"#.to_owned(), 400, "invalid_body"),
            (r#"{"title": "T", "content": ""}"#.to_owned(), 400, "empty_content"),
            (too_large(), 413, "body_too_large"),
            (json!({"title": "T", "content": "a".repeat(102_401)}).to_string(), 413, "content_too_large"),
        ] {
            let answer = app.create(body).await;
            assert!(!answer.expect_error(status, code).headers.contains_key("ratelimit"), "it was counted: {answer:?}");
        }
        let answer = app.create(r#"{"title": "T", "content": "c"}"#).await;
        answer.expect_status(if is_over_the_limit { 429 } else { 201 });
    }
}
