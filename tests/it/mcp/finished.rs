//! The results that are kept beside a page: the same bytes as those that are written for one call, counted in the
//! cache's bytes, and never those of an earlier state.

use serde_json::{Value, json};

use super::client::Client;
use crate::in_process::app::{TestApp, ready_bytes};
use crate::support::calls::Published;

/// Texts with everything that is escaped.
const CONTENT: &str =
    "A \"quoted\" line, a \\, a\ttab and a *word* of [é](https://elsewhere.example/?a=1&b=2).\n\n<b>\u{1}";

/// The body of a call that succeeds.
async fn body(client: &Client, tool: &str, arguments: Value) -> Vec<u8> {
    let answer = client.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
    answer.expect_status(200).body.to_vec()
}

async fn read(client: &Client, page: &Published, mut options: Value) -> Vec<u8> {
    options["slug"] = json!(page.slug);
    body(client, "get_page", options).await
}

#[tokio::test]
async fn a_result_that_is_kept_has_the_bytes_of_one_that_is_written_for_its_call() {
    let app = TestApp::new();
    let page = app.publish("Of \"everything\"", CONTENT).await;
    for client in Client::each(&app) {
        for options in [json!({}), json!({"include_html": true}), json!({"include_html": false}), json!({"offset": 1})]
        {
            let first = read(&client, &page, options.clone()).await;
            assert_eq!(first, read(&client, &page, options.clone()).await, "{options}");
            // An update without a change shows the page as it stands, and writes it for this call.
            if options.get("offset").is_none() {
                let mut arguments = options.clone();
                arguments["slug"] = json!(page.slug);
                arguments["edit_key"] = json!(page.key);
                let written = body(&client, "update_page", arguments).await;
                assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(written).unwrap(), "{options}");
            }
        }
    }
}

#[tokio::test]
async fn the_bytes_of_a_result_are_counted_once_and_only_for_whole_pages() {
    let app = TestApp::new();
    let client = Client::new(&app, "2026-07-28");
    let page = app.publish("A page", &CONTENT.repeat(20)).await;
    assert_eq!(ready_bytes(&app), 0, "nothing is made when a page is created");
    read(&client, &page, json!({"offset": 0, "max_chars": 100})).await;
    assert_eq!(ready_bytes(&app), 0, "a part is not kept");
    let mut before = 0;
    for options in [json!({"include_html": true}), json!({})] {
        let result = read(&client, &page, options.clone()).await.len();
        let grown = ready_bytes(&app) - before;
        // Beside the page a result has what the message adds: its id, its `_meta`, what describes it.
        assert!((result - 1000..result + 1000).contains(&grown), "{grown} for {result}");
        before = ready_bytes(&app);
        read(&client, &page, options).await;
        read(&client, &page, json!({"offset": 0, "max_chars": 100})).await;
        assert_eq!(ready_bytes(&app), before);
    }
}

#[tokio::test]
async fn a_page_that_was_changed_is_never_shown_as_it_was() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        let page = app.publish("First", "The *first* text.").await;
        for title in ["Second", "Third"] {
            for options in [json!({"include_html": true}), json!({})] {
                read(&client, &page, options).await;
            }
            app.update(&page, json!({"title": title})).await.expect_status(200);
            let current = app.page(&page.slug).await;
            let whole = client.call("get_page", json!({"slug": page.slug, "include_html": true})).await.done();
            assert_eq!(whole, current);
            let without = client.call("get_page", json!({"slug": page.slug})).await.done();
            assert_eq!((&without["title"], &without["updated_at"]), (&json!(title), &current["updated_at"]));
        }
        app.delete(&page).await.expect_status(204);
        client.call("get_page", json!({"slug": page.slug})).await.expect_error(410, "gone");
    }
}
