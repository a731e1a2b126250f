//! Entity tags and the requests that are conditional on them (contract, decision 8).

use std::time::Duration;

use handbill::http::SiteSettings;
use handbill::http::metadata::path;
use http::HeaderMap;
use serde_json::json;

use crate::in_process::app::{Published, Setup, TestApp};
use crate::in_process::exchange::{Answer, Request};

/// Requests for everything that has a validator: a page in each representation, and whatever is the same for everybody.
fn validated(page: &Published) -> Vec<(String, &'static str)> {
    let mut asked = page.representations().to_vec();
    let fixed = [
        "/",
        "/help",
        "/never-was-2222bbbb/edit",
        "/assets/0/editor.js",
        "/robots.txt",
        path::OPENAPI,
        path::LLMS,
        path::ICON,
    ];
    let cards = [path::AUTHORIZATION_SERVER, path::PROTECTED_RESOURCE, path::AGENT_CARD, path::SERVER_CARD];
    for target in fixed.into_iter().chain(cards).chain([path::SERVER_CARD_BESIDE]) {
        asked.push((target.to_owned(), "*/*"));
    }
    asked
}

/// The fields of `answer` except those that describe its body or the moment.
pub(crate) fn kept_fields(answer: &Answer) -> HeaderMap {
    let mut fields = answer.headers.clone();
    for left_out in ["content-type", "content-length", "date", "x-request-id"] {
        fields.remove(left_out);
    }
    fields
}

/// The targets of a page's three representations.
fn representations(page: &Published) -> [String; 3] {
    [format!("/api/pages/{}", page.slug), format!("/{}", page.slug), format!("/{}.md", page.slug)]
}

async fn get_if_none_match(app: &TestApp, target: &str, tags: &str) -> Answer {
    app.send(Request::get(target).header("if-none-match", tags)).await
}

fn changing(page: &Published) -> Request {
    Request::update(&page.slug, r#"{"content": "changed"}"#).key(&page.key)
}

async fn update_if_none_match(app: &TestApp, page: &Published, tags: &str) -> Answer {
    app.send(changing(page).header("if-none-match", tags)).await
}

async fn update_if_match(app: &TestApp, page: &Published, tags: &str) -> Answer {
    app.send(changing(page).header("if-match", tags)).await
}

#[tokio::test]
async fn every_representation_has_a_strong_tag_that_changes_with_it() {
    let (app, page) = TestApp::with_page().await;
    let mut tags = Vec::new();
    for target in representations(&page) {
        let before = app.get(&target).await.header("etag").to_owned();
        assert!(before.starts_with('"') && before.ends_with('"') && before.len() > 2, "{before}");
        assert_eq!(app.get(&target).await.header("etag"), before);
        app.update(&page, json!({"title": "Same"})).await.expect_status(200);
        let after = app.get(&target).await.header("etag").to_owned();
        app.update(&page, json!({})).await.expect_status(200);
        assert_eq!(app.get(&target).await.header("etag"), after);
        tags.extend([before, after]);
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 6, "{tags:?}");
}

#[tokio::test]
async fn a_read_of_what_the_client_holds_answers_304_without_a_body() {
    let (app, page) = TestApp::with_page().await;
    for target in representations(&page) {
        let tag = app.get(&target).await.header("etag").to_owned();
        let opaque = &tag[1..tag.len() - 1];
        for tags in
            [tag.clone(), format!("W/{tag}"), "*".to_owned(), format!("\"x\", {tag} ,\"y,z\""), format!("\"{opaque}\"")]
        {
            let answer = get_if_none_match(&app, &target, &tags).await;
            answer.expect_status(304);
            assert!(answer.body.is_empty());
            assert_eq!(answer.header("etag"), tag);
            assert_eq!(answer.header("cache-control"), "no-cache");
        }
    }
}

#[tokio::test]
async fn a_304_has_every_field_of_its_200_with_the_same_value() {
    let app = TestApp::new();
    let page = app.publish("Hello", "A [link](https://elsewhere.example/) elsewhere.").await;
    for (target, accept) in validated(&page) {
        for method in ["GET", "HEAD"] {
            let request = || Request::new(method, target.as_str()).header("accept", accept);
            let full = app.send(request()).await;
            assert!(!full.expect_status(200).header("etag").is_empty(), "{target}");
            let short = app.send(request().header("if-none-match", full.header("etag"))).await;
            assert_eq!(kept_fields(short.expect_status(304)), kept_fields(&full), "{method} {target} {accept}");
            // A field that may be left out must not have another value if it is there.
            for name in ["content-type", "content-length", "x-request-id"] {
                assert!(!short.headers.contains_key(name), "{name}: {method} {target}");
            }
        }
    }
}

#[tokio::test]
async fn a_read_of_anything_else_answers_200() {
    let (app, page) = TestApp::with_page().await;
    let [json, html, markdown] = representations(&page);
    let old = app.read(&page.slug).await.header("etag").to_owned();
    app.update(&page, json!({"content": "new"})).await.expect_status(200);
    for tags in [old.as_str(), "\"x\"", "", "nonsense", "\"*\"", "W/*", "\"unclosed"] {
        assert_eq!(get_if_none_match(&app, &json, tags).await.expect_status(200).field("content"), "new");
    }
    // The tag of one representation does not match another representation of the same version.
    let tag = app.get(&json).await.header("etag").to_owned();
    get_if_none_match(&app, &html, &tag).await.expect_status(200);
    get_if_none_match(&app, &markdown, &tag).await.expect_status(200);
}

#[tokio::test]
async fn a_delete_is_made_of_the_version_that_the_client_knows_alone() {
    let (app, page) = TestApp::with_page().await;
    let updated = app.update(&page, json!({"content": "new"})).await;
    let delete = |tag: &str| Request::delete(&page.slug).key(&page.key).header("if-match", tag);
    app.send(delete(&page.etag)).await.expect_error(412, "precondition_failed");
    app.read(&page.slug).await.expect_status(200);
    app.send(delete(updated.header("etag"))).await.expect_status(204);
    app.read(&page.slug).await.expect_status(410);
}

#[tokio::test]
async fn the_tag_of_any_representation_alone_or_in_a_list_and_a_star_serve_for_an_update() {
    let (app, page) = TestApp::with_page().await;
    for target in representations(&page) {
        for list in ["TAG", "\"9-json-1\" , TAG"] {
            let tags = list.replace("TAG", app.get(&target).await.header("etag"));
            update_if_match(&app, &page, &tags).await.expect_status(200);
            update_if_match(&app, &page, &tags).await.expect_error(412, "precondition_failed");
        }
    }
    update_if_match(&app, &page, "*").await.expect_status(200);
    let current = app.read(&page.slug).await.header("etag").to_owned();
    app.send(changing(&page).header("if-match", "\"9-json-1\"").header("if-match", current)).await.expect_status(200);
}

#[tokio::test]
async fn a_weak_or_foreign_or_malformed_tag_serves_for_nothing() {
    let (app, page) = TestApp::with_page().await;
    let before = app.page(&page.slug).await;
    let opaque = page.etag.trim_matches('"');
    for tags in [&format!("W/{}", page.etag), "\"x\"", "", opaque, "\"", "1", "\"*\"", "\"+1-json-1\"", "\"01-json-1\""]
    {
        let answer = update_if_match(&app, &page, tags).await;
        let message = answer.expect_error(412, "precondition_failed").field("message");
        assert!(message.contains("`If-Match`"), "{message}");
    }
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn a_write_of_what_if_none_match_names_answers_412() {
    let (app, page) = Setup::unlimited().start_with_page().await;
    let before = app.page(&page.slug).await;
    let mut named = vec!["*".to_owned(), format!("W/{}", page.etag), format!("\"x\" , {}", page.etag)];
    for target in representations(&page) {
        named.push(app.get(&target).await.header("etag").to_owned());
    }
    for tags in named {
        let answer = update_if_none_match(&app, &page, &tags).await;
        let message = answer.expect_error(412, "precondition_failed").field("message");
        assert!(message.contains("`If-None-Match`"), "{message}");
        let no_field = Request::update(&page.slug, "{}").key(&page.key).header("if-none-match", &tags);
        app.send(no_field).await.expect_error(412, "precondition_failed");
        let delete = Request::delete(&page.slug).key(&page.key).header("if-none-match", &tags);
        app.send(delete).await.expect_error(412, "precondition_failed");
    }
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn a_write_of_anything_else_than_if_none_match_names_is_made() {
    let (app, page) = TestApp::with_page().await;
    let stale = app.update(&page, json!({"content": "new"})).await.header("etag").to_owned();
    app.update(&page, json!({"content": "newer"})).await.expect_status(200);
    for tags in [stale.as_str(), &page.etag, "\"x\"", "", "nonsense", "\"*\"", "W/*", "\"unclosed"] {
        let updated = update_if_none_match(&app, &page, tags).await;
        assert_eq!(updated.expect_status(200).field("content"), "changed", "{tags}");
    }
    let delete = Request::delete(&page.slug).key(&page.key).header("if-none-match", &stale);
    app.send(delete).await.expect_status(204);
}

#[tokio::test]
async fn two_conditions_must_both_hold() {
    let (app, page) = TestApp::with_page().await;
    let before = app.page(&page.slug).await;
    let update = |if_match: &str, if_none_match: &str| {
        app.send(changing(&page).header("if-match", if_match).header("if-none-match", if_none_match))
    };
    update(&page.etag, "*").await.expect_error(412, "precondition_failed");
    update(&page.etag, &page.etag).await.expect_error(412, "precondition_failed");
    update("\"x\"", "\"x\"").await.expect_error(412, "precondition_failed");
    assert_eq!(app.page(&page.slug).await, before);
    update(&page.etag, "\"x\"").await.expect_status(200);
    update("*", &page.etag).await.expect_status(200);
}

/// A page at its first version after a backup was restored, and the tag that a client still holds of an earlier first
/// version. The page was written again after the restore, at another time.
async fn restored() -> (TestApp, Published, String) {
    let (before, app) = (TestApp::new(), TestApp::new());
    app.clock.advance(Duration::from_millis(1));
    // Both services draw the same slug and the same key.
    let (lost, page) = (before.published().await, app.published().await);
    assert_eq!((&lost.slug, &lost.key), (&page.slug, &page.key));
    (app, page, lost.etag)
}

#[tokio::test]
async fn a_tag_names_the_time_of_the_last_change_too() {
    let (app, page, lost) = restored().await;
    assert_ne!(page.etag, lost, "the same version was written at another time");
    get_if_none_match(&app, &format!("/api/pages/{}", page.slug), &lost).await.expect_status(200);
    update_if_match(&app, &page, &lost).await.expect_error(412, "precondition_failed");
    let delete = Request::delete(&page.slug).key(&page.key).header("if-match", &lost);
    app.send(delete).await.expect_error(412, "precondition_failed");
    let held = update_if_match(&app, &page, &page.etag).await.expect_status(200).header("etag").to_owned();
    update_if_none_match(&app, &page, &held).await.expect_error(412, "precondition_failed");
    update_if_none_match(&app, &page, &lost).await.expect_status(200);
}

#[tokio::test]
async fn with_edge_max_age_html_and_markdown_alone_may_be_kept() {
    let (app, page) = TestApp::with_page().await;
    for target in representations(&page) {
        let answer = app.get(&target).await;
        for field in ["cdn-cache-control", "surrogate-control", "expires", "x-accel-expires"] {
            assert!(!answer.headers.contains_key(field), "by default no {field} at {target}");
        }
    }
    let site = SiteSettings { edge_max_age: Some(Duration::from_mins(5)), ..SiteSettings::default() };
    let app = Setup::unlimited().site(site).start();
    let (page, gone) = (app.published().await, app.deleted().await);
    let ask = |target: String, accept: &'static str| app.send(Request::get(target).header("accept", accept));
    for target in [format!("/{}", page.slug), format!("/{}.md", page.slug)] {
        let answer = ask(target.clone(), "text/html").await;
        let again = Request::get(&target).header("if-none-match", answer.expect_status(200).header("etag"));
        let unchanged = app.send(again).await;
        unchanged.expect_status(304);
        for answer in [answer, unchanged] {
            assert_eq!(answer.header("cdn-cache-control"), "max-age=300", "{target}");
            assert_eq!(answer.header("cache-control"), "no-cache", "browsers ask each time");
        }
    }
    for (target, accept) in [
        (format!("/{}", page.slug), "text/markdown"),
        (format!("/api/pages/{}", page.slug), "*/*"),
        (format!("/{}", gone.slug), "text/html"),
        (format!("/{}.md", gone.slug), "text/html"),
        (format!("/{}", gone.slug), "*/*"),
        ("/never-was-2222bbbb".to_owned(), "text/html"),
        ("/never-was-2222bbbb.md".to_owned(), "*/*"),
        (format!("/{}/edit", page.slug), "text/html"),
        ("/".to_owned(), "text/html"),
    ] {
        let answer = ask(target.clone(), accept).await;
        assert!(!answer.headers.contains_key("cdn-cache-control"), "{target} as {accept}: {answer:?}");
    }
    let updated = app.update(&page, json!({"content": "new"})).await;
    assert!(!updated.expect_status(200).headers.contains_key("cdn-cache-control"));
}
