//! The right to change a page (spec §5).

use serde_json::json;

use crate::in_process::app::{BASE_URL, Published, Setup, TestApp};
use crate::in_process::exchange::{Answer, Request};

/// Sends an update and a delete, each made by `present`. Fails unless both answer `code` with 401, say how to authenticate and what is
/// wrong, and leave the page.
async fn refused(app: &TestApp, page: &Published, code: &str, present: impl Fn(Request) -> Request) -> Vec<Answer> {
    let before = app.page(&page.slug).await;
    let mut answers = Vec::new();
    for request in [Request::update(&page.slug, r#"{"content": "changed"}"#), Request::delete(&page.slug)] {
        let answer = app.send(present(request)).await;
        let challenge = answer.expect_error(401, code).header("www-authenticate");
        let metadata = format!(r#"resource_metadata="{BASE_URL}/.well-known/oauth-protected-resource""#);
        assert!(challenge.starts_with("Bearer ") && challenge.contains(&metadata), "{challenge}");
        if code != "key_in_query" {
            assert_eq!(challenge.contains(r#"error="invalid_token""#), code == "invalid_key", "{challenge}");
        }
        answers.push(answer);
    }
    assert_eq!(app.page(&page.slug).await, before);
    answers
}

#[tokio::test]
async fn a_wrong_or_malformed_key_answers_401_and_leaves_the_page() {
    let app = TestApp::new();
    let (deleted, page, other) = (app.deleted().await, app.published().await, app.published().await);
    let key = &page.key;
    let last = if key.ends_with('x') { 'y' } else { 'x' };
    for wrong in [
        format!("{}{last}", &key[..key.len() - 1]),
        other.key,
        deleted.key,
        "x".to_owned(),
        key[4..].to_owned(),
        key[..46].to_owned(),
        format!("{key}0"),
        format!("\"{key}\""),
        format!("{key} {key}"),
        key.replacen("hbk_", "HBK_", 1),
    ] {
        refused(&app, &page, "invalid_key", |request| request.key(&wrong)).await;
    }
    // This key is not even text.
    refused(&app, &page, "invalid_key", |request| request.header("authorization", b"Bearer hbk_\xff")).await;
    app.read(&other.slug).await.expect_status(200);
}

#[tokio::test]
async fn the_scheme_is_read_in_any_case() {
    let (app, page) = TestApp::with_page().await;
    for scheme in ["bearer", "BEARER", "Bearer"] {
        let value = format!("{scheme} {}", page.key);
        app.send(Request::update(&page.slug, "{}").header("authorization", value)).await.expect_status(200);
    }
}

#[tokio::test]
async fn two_authorization_headers_answer_401_even_if_both_are_right() {
    let (app, page) = TestApp::with_page().await;
    let wrong = format!("hbk_{}", "0".repeat(43));
    refused(&app, &page, "invalid_key", |request| request.key(&page.key).key(&page.key)).await;
    refused(&app, &page, "invalid_key", |request| request.key(&page.key).key(&wrong)).await;
    refused(&app, &page, "invalid_key", |request| request.key(&page.key).header("authorization", "Basic eDp5")).await;
}

#[tokio::test]
async fn what_has_not_the_form_of_a_key_answers_401_and_is_told_the_form() {
    let (app, page) = TestApp::with_page().await;
    let link = format!("{BASE_URL}/{}/edit", page.slug);
    for wrong in [&page.key[..40], &link, &format!("{link}#{}", page.key)] {
        for answer in refused(&app, &page, "invalid_key", |request| request.key(wrong)).await {
            let message = answer.field("message");
            assert!(message.contains("`hbk_` and 43 characters") && message.contains("after `#`"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_key_in_the_query_answers_401_even_beside_a_valid_header() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let mut queries = queries_around(&page.key);
    queries.push(page.key.clone());
    let names = ["edit_key=", "access_token=x", "key", "token=unlike-a-key", "%65dit_key=x"];
    queries.extend(names.map(str::to_owned));
    for query in queries {
        refused(&app, &page, "key_in_query", |request| request.query(&query)).await;
        for key in [&*page.key, "wrong"] {
            refused(&app, &page, "key_in_query", |request| request.query(&query).key(key)).await;
        }
    }
}

/// The addresses at which the page under `slug` is read or edited.
fn addresses(slug: &str) -> [String; 4] {
    [format!("/api/pages/{slug}"), format!("/{slug}"), format!("/{slug}.md"), format!("/{slug}/edit")]
}

#[tokio::test]
async fn a_read_with_a_key_in_the_query_answers_401_and_is_not_kept() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let mut queries = queries_around(&page.key);
    queries.extend(["edit_key", "key", "q"].map(|name| format!("{name}={}", page.key)));
    for address in addresses(&page.slug) {
        let tag = app.get(&address).await.expect_status(200).header("etag").to_owned();
        for query in &queries {
            for request in [
                Request::get(&address).query(query),
                Request::get(&address).query(query).key(&page.key),
                Request::get(&address).query(query).header("if-none-match", &tag),
                Request::get(&address).query(query).header("accept", "text/html"),
            ] {
                let answer = app.send(request).await;
                answer.expect_error(401, "key_in_query");
                assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
                assert!(answer.header("www-authenticate").starts_with("Bearer "), "{answer:?}");
            }
            app.send(Request::new("HEAD", address.as_str()).query(query)).await.expect_status(401);
        }
    }
}

#[tokio::test]
async fn a_read_ignores_the_names_of_parameters() {
    let (app, page) = TestApp::with_page().await;
    for address in addresses(&page.slug) {
        for query in ["edit_key=", "key", "token=unlike-a-key", "access_token=hbk_short", "utm_source=x"] {
            app.send(Request::get(&address).query(query)).await.expect_status(200);
        }
    }
    app.send(Request::create(r#"{"title": "T", "content": "c"}"#).query("key=x&token=y")).await.expect_status(201);
}

#[tokio::test]
async fn a_create_with_a_key_in_the_query_answers_400() {
    let app = TestApp::new();
    let key = app.published().await.key;
    for query in queries_around(&key) {
        let answer = app.send(Request::create(r#"{"title": "T", "content": "c"}"#).query(&query)).await;
        answer.expect_error(400, "key_in_query");
        assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    }
}

/// Queries that hold `key` in other text, under names that say nothing.
pub(crate) fn queries_around(key: &str) -> Vec<String> {
    let secret = &key[4..];
    vec![
        format!("authorization=Bearer%20{key}"),
        format!("Authorization=Bearer+{key}"),
        format!("q=%22{key}%22"),
        format!("q='{key}'"),
        format!("q=%20%20{key}%20"),
        format!("q=%7B%22edit_key%22%3A%22{key}%22%7D"),
        format!("q=x{key}y"),
        format!("q=%68bk_{secret}"),
        format!("q=hbk%5F{secret}"),
        format!("a%5B{key}%5D=1"),
        format!("utm_source=x&%20{key}"),
        format!("a=b;c={key}"),
        format!("q=%FF{key}%FF"),
        // The key is in an address that is itself a value, so what was encoded in the address is encoded once more.
        format!("next=https%3A%2F%2Fpages.example%2Fx%3Fkey%3D{key}"),
        format!("next=https%3A%2F%2Fpages.example%2Fx%3Fa%3Dhbk%255F{secret}"),
        format!("q=%2522{key}%2522"),
        format!("q=hbk%25255F{secret}"),
    ]
}

#[tokio::test]
async fn a_query_without_a_key_is_ignored() {
    let (app, page) = TestApp::with_page().await;
    let shorter = format!("x={}", &page.key[..46]);
    let elsewhere = format!("x=HBK_{}", &page.key[4..]);
    for query in [
        "",
        "utm_source=x",
        "monkey=1",
        "x=hbk_",
        "x=%68bk_abc",
        "x=my-hbk_",
        "tokens=1",
        "%zz=%",
        "%25zz=%2525",
        "authorization=Bearer%20x",
        &shorter,
        &elsewhere,
    ] {
        app.send(Request::update(&page.slug, "{}").key(&page.key).query(query)).await.expect_status(200);
    }
}

#[tokio::test]
async fn without_a_bearer_token_in_its_header_the_key_is_missing() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    refused(&app, &page, "missing_key", |request| request).await;
    let schemes = ["", "Basic ", "Token ", "Bear "].map(|scheme| format!("{scheme}{}", page.key));
    let empty = ["Bearer", "bearer", "BEARER", "Bearer ", "Bearer    ", "Bearer \t ", "", " "].map(str::to_owned);
    for value in schemes.into_iter().chain(empty) {
        refused(&app, &page, "missing_key", |request| request.header("authorization", &value)).await;
    }
    for header in ["x-api-key", "x-edit-key", "cookie", "proxy-authorization"] {
        refused(&app, &page, "missing_key", |request| request.header(header, &page.key)).await;
    }
    let body = json!({"edit_key": page.key}).to_string();
    app.send(Request::update(&page.slug, body)).await.expect_error(401, "missing_key");
}
