//! Every tool reads its arguments in the same way (contract, decision 15).

use handbill::http::error::{ApiError, Interface};
use handbill_core::service::ServiceError;
use serde_json::{Value, json};

use super::client::{Client, Outcome};
use crate::in_process::app::{Setup, TestApp};
use crate::support::app::BASE_URL;
use crate::support::calls::Published;

/// Every tool with valid arguments.
fn right(page: &Published) -> [(&'static str, Value); 4] {
    [
        ("create_page", json!({"title": "T", "content": "c"})),
        ("get_page", json!({"slug": page.slug, "include_html": true})),
        ("update_page", json!({"slug": page.slug, "edit_key": page.key, "title": "T", "content": "c"})),
        ("delete_page", json!({"slug": page.slug, "edit_key": page.key})),
    ]
}

/// `arguments` with `name` as `value`.
fn with(arguments: &Value, name: &str, value: Value) -> Value {
    let mut arguments = arguments.clone();
    arguments[name] = value;
    arguments
}

/// The ways in which people name a page.
fn names_of(slug: &str) -> Vec<String> {
    vec![
        slug.to_owned(),
        format!("/{slug}"),
        format!("{slug}.md"),
        format!("/{slug}.md"),
        format!("{BASE_URL}/{slug}"),
        format!("{BASE_URL}/{slug}.md"),
        format!("HTTPS://Pages.Example:443/{slug}"),
        format!("{BASE_URL}/{slug}#a-heading"),
        format!("{BASE_URL}/{slug}?utm_source=x"),
        format!(" {BASE_URL}/{slug}\n"),
        format!("\t{slug} "),
        format!("{slug}/"),
        format!("{BASE_URL}/{slug}/"),
        format!("{BASE_URL}/{slug}/edit"),
        format!("{BASE_URL}/{slug}/edit#hbk_of_the_reader"),
        format!("/api/pages/{slug}"),
        format!("{BASE_URL}/api/pages/{slug}"),
    ]
}

/// The ways in which people write a key.
fn forms_of(key: &str) -> Vec<String> {
    vec![
        key.to_owned(),
        format!("Bearer {key}"),
        format!("bearer {key}"),
        format!("BEARER   {key}"),
        format!(" {key}\n"),
        format!(" Bearer {key} "),
    ]
}

#[tokio::test]
async fn a_page_s_url_a_slash_and_the_name_of_its_markdown_are_taken_as_its_slug_by_every_tool() {
    let app = Setup::unlimited().start();
    for client in Client::each(&app) {
        let page = app.published().await;
        for name in names_of(&page.slug) {
            let read = client.call("get_page", json!({"slug": name})).await.done();
            assert_eq!(read["slug"], json!(page.slug), "{name:?}");
            let update = json!({"slug": name, "edit_key": page.key, "content": name});
            let updated = client.call("update_page", update).await.done();
            assert_eq!((&updated["slug"], &updated["content"]), (&json!(page.slug), &json!(name)));
        }
        for form in 0..names_of("").len() {
            let page = app.published().await;
            let name = &names_of(&page.slug)[form];
            let deleted = client.call("delete_page", json!({"slug": name, "edit_key": page.key})).await.done();
            assert_eq!(deleted, json!({"slug": page.slug, "deleted": true}), "{name:?}");
            app.read(&page.slug).await.expect_error(410, "gone");
        }
    }
}

#[tokio::test]
async fn an_impossible_page_name_is_not_found_by_every_tool_alike_and_is_not_counted() {
    let app = Setup::new().limits(100, 1).start();
    let page = app.published().await;
    let slug = &page.slug;
    for client in Client::each(&app) {
        for name in [
            String::new(),
            " ".to_owned(),
            "/".to_owned(),
            ".md".to_owned(),
            format!("//{slug}"),
            format!("{slug}//"),
            format!("{slug}/edit/"),
            format!("{slug}.md/"),
            format!("{slug}.md.md"),
            format!("{slug}.MD"),
            slug.to_uppercase(),
            format!("{BASE_URL}/"),
            format!("{BASE_URL}/api/pages"),
            format!("https://other.example/{slug}"),
            format!("http://pages.example/{slug}"),
            format!("https://pages.example:8443/{slug}"),
            format!("https://user@pages.example/{slug}"),
            format!("https://pages.example.other.example/{slug}"),
            format!("ftp://pages.example/{slug}"),
            format!("pages.example/{slug}"),
            format!("//pages.example/{slug}"),
        ] {
            for (tool, arguments) in &right(&page)[1..] {
                let failed =
                    client.call(tool, with(arguments, "slug", json!(name))).await.expect_error(404, "not_found");
                assert_eq!(failed.message, ApiError::of(&ServiceError::NotFound, Interface::Mcp).message);
            }
        }
    }
    // The one edit that the limit allows was not used.
    app.update(&page, json!({"content": "new"})).await.expect_status(200);
}

#[tokio::test]
async fn a_key_is_taken_with_bearer_and_white_space_around_it_by_every_tool() {
    let app = Setup::unlimited().start();
    for client in Client::each(&app) {
        for form in 0..forms_of("").len() {
            let page = app.published().await;
            let own = json!({"slug": page.slug, "edit_key": forms_of(&page.key)[form]});
            client.call("update_page", with(&own, "title", json!("New"))).await.done();
            assert_eq!(app.page(&page.slug).await["title"], "New");
            client.call("delete_page", own).await.done();
            app.read(&page.slug).await.expect_error(410, "gone");
        }
    }
}

#[tokio::test]
async fn a_key_in_any_other_text_is_invalid_and_none_at_all_is_missing_for_every_tool() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    let key = &page.key;
    for client in Client::each(&app) {
        for (tool, arguments) in &right(&page)[2..] {
            for missing in ["", " ", "Bearer", "bearer  "] {
                let call = client.call(tool, with(arguments, "edit_key", json!(missing)));
                call.await.expect_error(401, "missing_key");
            }
            for wrong in [
                format!("Bearer Bearer {key}"),
                format!("Bearer{key}"),
                format!("Basic {key}"),
                format!("\"{key}\""),
                format!("{key}x"),
                format!("edit_key={key}"),
            ] {
                let call = client.call(tool, with(arguments, "edit_key", json!(wrong)));
                call.await.expect_error(401, "invalid_key");
            }
        }
    }
    app.read(&page.slug).await.expect_status(200);
}

#[tokio::test]
async fn an_argument_of_another_type_is_invalid_body_and_is_named_by_every_tool() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    let before = app.page(&page.slug).await;
    for client in Client::each(&app) {
        for (tool, arguments) in right(&page) {
            for name in arguments.as_object().unwrap().keys() {
                for value in [json!(7), json!(0.5), json!([]), json!(["x"]), json!({}), json!({"x": 1})] {
                    let call = client.call(tool, with(&arguments, name, value.clone())).await;
                    let failed = call.expect_error(400, "invalid_body");
                    let expected = if name == "include_html" { "`true` or `false`" } else { "as a string" };
                    assert!(failed.message.contains(&format!("`{name}`")), "{tool} {name} {value}: {failed:?}");
                    assert!(failed.message.contains(expected), "{tool} {name} {value}: {failed:?}");
                }
            }
        }
    }
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn an_argument_that_is_null_is_as_one_that_is_left_out_for_every_tool() {
    let app = Setup::unlimited().start();
    for client in Client::each(&app) {
        let page = app.published().await;
        for (tool, arguments) in right(&page) {
            for name in arguments.as_object().unwrap().keys() {
                // A page cannot be deleted twice.
                if tool == "delete_page" {
                    let null = client.call(tool, with(&arguments, name, json!(null))).await;
                    let code = if name == "slug" { (400, "invalid_body") } else { (401, "missing_key") };
                    null.expect_error(code.0, code.1);
                    continue;
                }
                let mut without = arguments.clone();
                without.as_object_mut().unwrap().remove(name);
                let outcomes =
                    [client.call(tool, with(&arguments, name, json!(null))).await, client.call(tool, without).await];
                match outcomes {
                    [Outcome::Failed(null), Outcome::Failed(left_out)] => assert_eq!(null, left_out, "{tool} {name}"),
                    [Outcome::Done(_), Outcome::Done(_)] => {}
                    outcomes => panic!("{tool} {name}: {outcomes:?}"),
                }
            }
            let unknown = client.call(tool, with(&arguments, "unknown", json!(null))).await;
            assert!(matches!(unknown, Outcome::Done(_)), "{tool}: {unknown:?}");
        }
    }
}

#[tokio::test]
async fn an_argument_that_is_not_known_is_invalid_body_and_those_that_are_are_named_by_every_tool() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    let before = app.page(&page.slug).await;
    for client in Client::each(&app) {
        for (tool, arguments) in right(&page) {
            for unknown in ["unknown", "Slug", "editKey", "url"] {
                let failed =
                    client.call(tool, with(&arguments, unknown, json!("x"))).await.expect_error(400, "invalid_body");
                assert!(failed.message.contains(&format!("`{unknown}`")), "{tool}: {failed:?}");
                for known in arguments.as_object().unwrap().keys() {
                    assert!(failed.message.contains(&format!("`{known}`")), "{tool} lacks {known}: {failed:?}");
                }
            }
        }
    }
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn the_schema_of_a_key_and_of_a_slug_accepts_what_the_tools_take() {
    let app = TestApp::new();
    let page = app.published().await;
    for tool in Client::new(&app, "2026-07-28").tools().await {
        let properties = &tool["inputSchema"]["properties"];
        for (name, forms) in [("edit_key", forms_of(&page.key)[..4].to_vec()), ("slug", names_of(&page.slug))] {
            if properties[name].is_null() {
                continue;
            }
            for form in forms {
                assert!(jsonschema::is_valid(&properties[name], &json!(form)), "{name} {form:?}");
            }
            assert!(!jsonschema::is_valid(&properties[name], &json!(7)), "{name}");
        }
    }
}
