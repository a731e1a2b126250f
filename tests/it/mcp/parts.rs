//! Reading and changing parts of a page, so that a long page does not fill an agent's context (contract, decision 15).

use serde_json::{Value, json};

use super::client::{Client, Outcome};
use crate::in_process::app::{Published, Setup, TestApp};

/// Calls the tool. What it refuses, REST refuses in the same words.
async fn update(client: &Client, page: &Published, fields: Value) -> Outcome {
    let mut arguments = fields.clone();
    arguments["slug"] = json!(page.slug);
    arguments["edit_key"] = json!(page.key);
    let outcome = client.call("update_page", arguments).await;
    let is_of_rest = fields.as_object().unwrap().keys().all(|name| ["title", "content", "edits"].contains(&&**name));
    if let Outcome::Failed(error) = &outcome
        && is_of_rest
    {
        let answer = client.app.update(page, fields).await.json();
        assert_eq!((&answer["error"], &answer["message"]), (&error["error"], &error["message"]));
    }
    outcome
}

#[tokio::test]
async fn a_long_page_is_read_in_parts_that_join_to_its_content() {
    let app = TestApp::new();
    let content = "Zeile für Zeile 🦀\n".repeat(100);
    let page = app.publish("Long", &content).await;
    for client in Client::each(&app) {
        let (mut read, mut offset) = (String::new(), 0);
        loop {
            let arguments = json!({"slug": page.slug, "include_html": false, "offset": offset, "max_chars": 999});
            let part = client.call("get_page", arguments).await.done();
            assert_eq!(part["total_chars"], json!(content.chars().count()));
            assert!(part.get("content_html").is_none());
            let query = format!("offset={offset}&max_chars=999");
            assert_eq!(app.get(&format!("/api/pages/{}?{query}", page.slug)).await.json(), part);
            let text = part["content"].as_str().unwrap();
            assert!(text.chars().count() <= 999);
            read.push_str(text);
            match part.get("next_offset") {
                Some(next) => offset = next.as_u64().unwrap(),
                None => break,
            }
        }
        assert_eq!((read.as_str(), offset), (content.as_str(), 999));
    }
}

#[tokio::test]
async fn a_part_beyond_the_end_is_empty_and_tells_the_length() {
    let app = TestApp::new();
    let page = app.publish("T", "abc").await;
    let client = Client::new(&app, "2026-07-28");
    for (arguments, content, next) in [
        (json!({"offset": 3}), "", None),
        (json!({"offset": 18_446_744_073_709_551_615_u64}), "", None),
        (json!({"offset": 1}), "bc", None),
        (json!({"max_chars": 2}), "ab", Some(2)),
        (json!({"max_chars": 3}), "abc", None),
        (json!({"offset": 0, "max_chars": 18_446_744_073_709_551_615_u64}), "abc", None),
        // By JSON Schema these are whole numbers, and clients whose numbers are doubles send them.
        (json!({"offset": 1.0, "max_chars": 1.0}), "b", Some(2)),
        (json!({"offset": -0.0, "max_chars": 1e30}), "abc", None),
        (json!({"offset": 1e300, "max_chars": 2e0}), "", None),
    ] {
        let mut arguments = arguments;
        arguments["slug"] = json!(page.slug);
        let part = client.call("get_page", arguments.clone()).await.done();
        assert_eq!((&part["content"], &part["total_chars"]), (&json!(content), &json!(3)));
        assert_eq!(part.get("next_offset"), next.map(|next| json!(next)).as_ref());
        assert_eq!(part.get("content_html"), None, "{arguments}");
        arguments["include_html"] = json!(true);
        let part = client.call("get_page", arguments).await.done();
        assert_eq!(part["content_html"], "<p>abc</p>\n", "the HTML is whole");
    }
    let whole = client.call("get_page", json!({"slug": page.slug, "offset": null, "include_html": true})).await.done();
    assert_eq!(whole, app.page(&page.slug).await);
}

#[tokio::test]
async fn an_offset_or_length_that_is_no_count_is_refused() {
    let app = TestApp::new();
    let page = app.publish("T", "abc").await;
    let client = Client::new(&app, "2026-07-28");
    for (name, value, expected) in [
        ("offset", json!(-1), "a whole number."),
        ("offset", json!("1"), "a whole number."),
        ("offset", json!(1.5), "a whole number."),
        ("max_chars", json!(0), "a whole number from 1 on."),
        ("max_chars", json!(true), "a whole number from 1 on."),
    ] {
        let failed = client.call("get_page", json!({"slug": page.slug, name: value})).await;
        let message = failed.expect_error(400, "invalid_body").message;
        assert!(message.contains(&format!("`{name}`")) && message.ends_with(expected), "{message}");
    }
}

#[tokio::test]
async fn edits_replace_their_parts_and_nothing_else() {
    let app = Setup::unlimited().start();
    for client in Client::each(&app) {
        let page = app.publish("T", "One *two* three.\r\n").await;
        let edits = json!([{"old": "three", "new": "drei"}, {"old": "*two*", "new": ""}]);
        let arguments = json!({"edits": edits, "title": "New", "include_content": true, "include_html": true});
        let updated = update(&client, &page, arguments).await.done();
        assert_eq!((&updated["content"], &updated["title"]), (&json!("One  drei.\r\n"), &json!("New")));
        assert_eq!(updated["content_html"], "<p>One  drei.</p>\n");
        assert_eq!(updated, app.page(&page.slug).await);
        update(&client, &page, json!({"edits": []})).await.done();
        assert_eq!(app.page(&page.slug).await, updated, "no edit is no change");
    }
}

#[tokio::test]
async fn edits_of_the_wrong_shape_are_refused_by_their_names() {
    let app = Setup::unlimited().start();
    let client = Client::new(&app, "2026-07-28");
    let page = app.published().await;
    for (arguments, told) in [
        (json!({"edits": "[]"}), "list of objects with `old` and `new`"),
        (json!({"edits": {"old": "a", "new": "b"}}), "list of objects with `old` and `new`"),
        (json!({"edits": ["a"]}), "`edits[0]` has the wrong type. Send it as an object with `old` and `new`"),
        (json!({"edits": [{"old": "a"}]}), "`edits[0].new` is missing"),
        (json!({"edits": [{"old": "a", "new": 1}]}), "`edits[0].new` has the wrong type. Send it as a string"),
        (
            json!({"edits": [{"old": "a", "new": "b"}, {"old": "a", "new": "b", "all": true}]}),
            "Unknown field `all` in `edits[1]`. Allowed: `old` and `new`",
        ),
        (json!({"edits": [{"old": "a", "new": "b"}], "content": "c"}), "exclude each other"),
        (json!({"if_updated_at": "yesterday"}), "`if_updated_at` is not a time"),
        (json!({"if_updated_at": 5}), "`if_updated_at` has the wrong type"),
    ] {
        let failed = update(&client, &page, arguments).await.expect_error(400, "invalid_body");
        assert!(failed.message.contains(told), "{failed:?}");
    }
}

#[tokio::test]
async fn edits_obey_the_rules_for_content() {
    let app = Setup::unlimited().start();
    let client = Client::new(&app, "2026-07-28");
    let page = app.publish("T", "x").await;
    let replace = |new: &str| json!({"edits": [{"old": "x", "new": new}]});
    update(&client, &page, replace("")).await.expect_error(400, "empty_content");
    update(&client, &page, replace(&"y".repeat(102_401))).await.expect_error(413, "content_too_large");
    update(&client, &page, replace(&page.key)).await.expect_error(400, "invalid_body");
    // An edit may complete a key of which the page has the other half.
    let halves = page.key.split_at(20);
    app.update(&page, json!({"content": format!("{}x{}", halves.0, halves.1)})).await.expect_status(200);
    let failed = update(&client, &page, replace("")).await.expect_error(400, "invalid_body");
    assert!(failed.message.contains("edit key"), "{failed:?}");
}

#[tokio::test]
async fn an_update_for_a_state_that_has_passed_changes_nothing() {
    let app = Setup::unlimited().start();
    for client in Client::each(&app) {
        let page = app.published().await;
        let seen = app.page(&page.slug).await["updated_at"].clone();
        update(&client, &page, json!({"title": "First", "if_updated_at": seen})).await.done();
        let updated = app.page(&page.slug).await;
        for arguments in [
            json!({"title": "Second", "if_updated_at": seen}),
            json!({"edits": [{"old": "not there", "new": ""}], "if_updated_at": seen}),
            json!({"if_updated_at": seen}),
        ] {
            let failed = update(&client, &page, arguments).await.expect_error(412, "precondition_failed");
            assert!(failed.message.contains("`updated_at`"), "{failed:?}");
            assert_eq!(app.page(&page.slug).await, updated);
        }
    }
}

#[tokio::test]
async fn an_update_answers_without_the_texts_that_are_not_asked_for() {
    let app = Setup::unlimited().start();
    let client = Client::new(&app, "2026-07-28");
    let page = app.published().await;
    for (include_content, include_html) in [(true, true), (true, false), (false, true), (false, false)] {
        let include = json!({"title": "New", "include_content": include_content, "include_html": include_html});
        let updated = update(&client, &page, include).await.done();
        assert_eq!(updated.get("content").is_some(), include_content);
        assert_eq!(updated.get("content_html").is_some(), include_html);
        assert!(updated.get("total_chars").is_none());
    }
}
