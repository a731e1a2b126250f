//! Every tool reads its arguments in the same way (contract, decision 15).

use serde_json::{Value, json};

use super::client::{Client, MODERN};
use crate::in_process::app::{BASE_URL, Published, Setup, TestApp};

async fn start() -> (TestApp, Client, Published) {
    let (app, page) = Setup::unlimited().start_with_page().await;
    (app.clone(), Client::new(&app, MODERN), page)
}

/// Every tool with valid arguments. A deletion is the last.
fn right(page: &Published) -> [(&'static str, Value); 4] {
    [
        ("create_page", json!({"title": "T", "content": "c"})),
        ("get_page", json!({"slug": page.slug, "include_html": true})),
        ("update_page", json!({"slug": page.slug, "edit_key": page.key, "title": "T", "content": "c"})),
        ("delete_page", json!({"slug": page.slug, "edit_key": page.key})),
    ]
}

fn with(arguments: &Value, name: &str, value: Value) -> Value {
    let mut arguments = arguments.clone();
    arguments[name] = value;
    arguments
}

#[tokio::test]
async fn every_address_of_a_page_is_taken_as_its_slug() {
    let (app, client, page) = start().await;
    let slug = &page.slug;
    for name in [
        slug.clone(),
        format!("/{slug}"),
        format!("{slug}.md"),
        format!("{slug}/"),
        format!("/api/pages/{slug}"),
        format!("{BASE_URL}/{slug}.md"),
        format!("{BASE_URL}/{slug}/"),
        format!("{BASE_URL}/{slug}/edit#hbk_of_the_reader"),
        format!("{BASE_URL}/{slug}?utm_source=x"),
        format!("{BASE_URL}/api/pages/{slug}"),
        format!("HTTPS://Pages.Example:443/{slug}"),
        format!(" {BASE_URL}/{slug}\n"),
    ] {
        assert_eq!(client.call("get_page", json!({"slug": name})).await.done()["slug"], json!(slug), "{name:?}");
        let update = json!({"slug": name, "edit_key": page.key, "content": name});
        assert_eq!(client.call("update_page", update).await.done()["content"], json!(name));
    }
    let address = json!({"slug": format!("{BASE_URL}/{slug}"), "edit_key": page.key});
    assert_eq!(client.call("delete_page", address).await.done(), json!({"slug": slug, "deleted": true}));
    app.read(slug).await.expect_error(410, "gone");
}

#[tokio::test]
async fn an_impossible_page_name_is_not_found_and_is_not_counted() {
    let (app, page) = Setup::new().limits(100, 1).start_with_page().await;
    let slug = &page.slug;
    let client = Client::new(&app, MODERN);
    for name in [
        String::new(),
        "/".to_owned(),
        format!("//{slug}"),
        format!("{slug}/edit/"),
        format!("{slug}.md.md"),
        slug.to_uppercase(),
        format!("{BASE_URL}/api/pages"),
        format!("https://other.example/{slug}"),
        format!("http://pages.example/{slug}"),
        format!("https://pages.example:8443/{slug}"),
        format!("https://user@pages.example/{slug}"),
        format!("https://pages.example.other.example/{slug}"),
        format!("//pages.example/{slug}"),
    ] {
        for (tool, arguments) in &right(&page)[1..] {
            let failed = client.call(tool, with(arguments, "slug", json!(name))).await.expect_error(404, "not_found");
            assert!(failed.message.starts_with("No such page on this server."), "{failed:?}");
        }
    }
    // The one edit that the limit allows was not used.
    app.update(&page, json!({"content": "new"})).await.expect_status(200);
}

#[tokio::test]
async fn a_key_is_taken_with_bearer_and_white_space_around_it() {
    let (app, client, page) = start().await;
    let key = &page.key;
    let link = format!("{BASE_URL}/{}/edit#{key}", page.slug);
    for form in
        [format!("Bearer {key}"), format!("BEARER   {key}"), format!(" {key}\n"), format!(" bearer {key} "), link]
    {
        client.call("update_page", json!({"slug": page.slug, "edit_key": form})).await.done();
    }
    let delete = json!({"slug": page.slug, "edit_key": format!("Bearer {key}")});
    client.call("delete_page", delete).await.done();
    app.read(&page.slug).await.expect_error(410, "gone");
}

#[tokio::test]
async fn a_key_in_any_other_text_is_invalid_and_none_is_missing() {
    let (app, client, page) = start().await;
    let key = &page.key;
    for (tool, arguments) in &right(&page)[2..] {
        for missing in ["", " ", "Bearer", "bearer  "] {
            let call = client.call(tool, with(arguments, "edit_key", json!(missing)));
            call.await.expect_error(401, "missing_key");
        }
        let link = format!("{BASE_URL}/{}/edit", page.slug);
        let others = [format!("Bearer Bearer {key}"), format!("Basic {key}"), format!("\"{key}\""), format!("{key}x")];
        for wrong in others.into_iter().chain([link]) {
            let failed = client.call(tool, with(arguments, "edit_key", json!(wrong))).await;
            let message = failed.expect_error(401, "invalid_key").message;
            assert!(message.contains("`hbk_` and 43 characters"), "{message}");
        }
    }
    app.read(&page.slug).await.expect_status(200);
}

#[tokio::test]
async fn an_argument_of_another_type_is_invalid_body_and_is_named() {
    let (app, client, page) = start().await;
    let before = app.page(&page.slug).await;
    for (tool, arguments) in right(&page) {
        for name in arguments.as_object().unwrap().keys() {
            for value in [json!(7), json!(["x"]), json!({"x": 1})] {
                let call = client.call(tool, with(&arguments, name, value.clone())).await;
                let failed = call.expect_error(400, "invalid_body");
                let expected = if name == "include_html" { "`true` or `false`" } else { "as a string" };
                let is_told = failed.message.contains(&format!("`{name}`")) && failed.message.contains(expected);
                assert!(is_told, "{tool} {name} {value}: {failed:?}");
            }
        }
    }
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn null_is_an_argument_that_is_left_out() {
    let (_app, client, page) = start().await;
    for (tool, arguments) in right(&page) {
        for name in arguments.as_object().unwrap().keys() {
            let outcome = client.call(tool, with(&arguments, name, json!(null))).await;
            match (tool, name.as_str()) {
                (_, "edit_key") => drop(outcome.expect_error(401, "missing_key")),
                (_, "slug") | ("create_page", _) => {
                    assert!(
                        outcome.expect_error(400, "invalid_body").message.contains(&format!("`{name}` is missing"))
                    );
                }
                _ => drop(outcome.done()),
            }
        }
        client.call(tool, with(&arguments, "unknown", json!(null))).await.done();
    }
}

#[tokio::test]
async fn an_unknown_argument_is_invalid_body_and_the_known_are_named() {
    let (app, client, page) = start().await;
    let before = app.page(&page.slug).await;
    for (tool, arguments) in right(&page) {
        for unknown in ["unknown", "Slug", "url"] {
            let failed =
                client.call(tool, with(&arguments, unknown, json!("x"))).await.expect_error(400, "invalid_body");
            for name in arguments.as_object().unwrap().keys().map(String::as_str).chain([unknown]) {
                assert!(failed.message.contains(&format!("`{name}`")), "{tool} lacks {name}: {failed:?}");
            }
        }
        // `Client` fails if an error repeats a key.
        client.call(tool, with(&arguments, &page.key, json!(true))).await.expect_error(400, "invalid_body");
    }
    assert_eq!(app.page(&page.slug).await, before);
}
