//! Mistakes that language models make with the tools. Each ends in success, at the latest with the one further call that
//! the error asks for.

use serde_json::{Value, json};

use super::client::Client;
use crate::in_process::app::{Setup, TestApp};
use crate::support::app::BASE_URL;
use crate::support::calls::Published;

fn start() -> (TestApp, Client) {
    let app = Setup::unlimited().start();
    let client = Client::new(&app, "2026-07-28");
    (app, client)
}

fn edit(page: &Published, old: &str) -> Value {
    json!({"slug": page.slug, "edit_key": page.key, "edits": [{"old": old, "new": "NEW"}]})
}

#[tokio::test]
async fn a_url_in_place_of_a_slug_succeeds_at_once() {
    let (app, client) = start();
    let page = app.published().await;
    let slug = &page.slug;
    for named in [
        format!("{BASE_URL}/{slug}"),
        format!("{BASE_URL}/{slug}.md"),
        format!("/{slug}"),
        format!("{slug}.md"),
        format!("{BASE_URL}/{slug}#top"),
    ] {
        assert_eq!(client.call("get_page", json!({"slug": named})).await.done()["slug"], json!(slug));
    }
}

#[tokio::test]
async fn a_key_with_its_scheme_succeeds_at_once() {
    let (app, client) = start();
    let page = app.published().await;
    let key = &page.key;
    for (number, written) in [
        format!("Bearer {key}"),
        format!("bearer {key}"),
        format!(" {key}"),
        format!("{key}\n"),
        format!("BEARER  {key}"),
    ]
    .into_iter()
    .enumerate()
    {
        let title = format!("Title {number}");
        let arguments = json!({"slug": page.slug, "edit_key": written, "title": title});
        assert_eq!(client.call("update_page", arguments).await.done()["title"], json!(title));
    }
}

#[tokio::test]
async fn a_stale_edit_succeeds_after_one_read() {
    let (app, client) = start();
    for number in 0..5 {
        let page = app.publish("T", "one").await;
        let seen = client.call("get_page", json!({"slug": page.slug})).await.done()["updated_at"].clone();
        app.update(&page, json!({"content": format!("one and {number}")})).await.expect_status(200);
        let mut arguments = edit(&page, "one");
        arguments["if_updated_at"] = seen;
        let failed = client.call("update_page", arguments.clone()).await.expect_error(412, "precondition_failed");
        assert!(failed.message.contains("read the page again") && failed.message.contains("`updated_at`"));
        arguments["if_updated_at"] =
            client.call("get_page", json!({"slug": page.slug})).await.done()["updated_at"].clone();
        client.call("update_page", arguments).await.done();
        assert_eq!(app.page(&page.slug).await["content"], json!(format!("NEW and {number}")));
    }
}

#[tokio::test]
async fn an_old_text_that_is_ambiguous_or_inexact_succeeds_with_the_words_that_the_error_shows() {
    let (app, client) = start();
    let content = "# Log\n\n- Monday: tests pass.\n- Tuesday: tests fail.\n- Wednesday:  tests pass again.\n";
    for (mistaken, shown, corrected) in [
        ("tests pass", "Monday: tests pass", "Monday: tests pass"),
        ("- ", "Tuesday: tests", "- Tuesday"),
        ("Tuesday: test fails", "Tuesday: tests fail.", "Tuesday: tests fail"),
        ("Wednesday: tests pass again", "Wednesday", "tests pass again"),
        ("tuesday: tests fail", "Tuesday: tests fail", "Tuesday: tests fail"),
    ] {
        let page = app.publish("T", content).await;
        let failed = client.call("update_page", edit(&page, mistaken)).await.expect_error(400, "invalid_body");
        assert!(failed.message.contains(shown), "{failed:?}");
        client.call("update_page", edit(&page, corrected)).await.done();
        assert_eq!(app.page(&page.slug).await["content"], json!(content.replacen(corrected, "NEW", 1)));
    }
}

#[tokio::test]
async fn a_long_page_is_read_within_a_clients_limit_as_the_description_says() {
    let (app, client) = start();
    let page = app.publish("T", &"word ".repeat(20_000)).await;
    let tools = client.tools().await;
    let told = tools.iter().find(|tool| tool["name"] == "get_page").unwrap()["description"].as_str().unwrap();
    for option in ["`include_html`", "`max_chars`", "`offset`", "`next_offset`", "`total_chars`"] {
        assert!(told.contains(option), "{told}");
    }
    for max_chars in [1, 1_000, 10_000, 20_000, 25_000] {
        let arguments = json!({"slug": page.slug, "include_html": false, "max_chars": max_chars});
        let part = client.call("get_page", arguments).await.done();
        assert_eq!(part["next_offset"], json!(max_chars));
        assert!(part.to_string().len() < 26_000);
    }
}
