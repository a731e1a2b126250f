//! Failed calls: their codes, and that the text alone is enough to recover (contract, decisions 3 and 15).

use handbill::http::error::{ApiError, Interface};
use handbill_core::domain::title::MAX_CHARS;
use handbill_core::service::ServiceError;
use serde_json::{Value, json};

use super::client::{Client, TEST_TIMEOUT};
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::stores::{Calls, Fault, Operation};

const NEVER_USED: &str = "never-was-2222bbbb";

#[tokio::test]
async fn a_tool_answers_with_the_same_codes_where_rest_answers_404_410_and_401() {
    let app = Setup::unlimited().start();
    for client in Client::each(&app) {
        let page = app.published().await;
        let gone = app.deleted().await.slug;
        for (slug, status, code) in [(NEVER_USED, 404, "not_found"), (gone.as_str(), 410, "gone")] {
            client.call("get_page", json!({"slug": slug})).await.expect_error(status, code);
            client.call("update_page", json!({"slug": slug, "edit_key": page.key})).await.expect_error(status, code);
            client.call("delete_page", json!({"slug": slug, "edit_key": page.key})).await.expect_error(status, code);
        }
        let other = app.published().await.key;
        for tool in ["update_page", "delete_page"] {
            let slug = &page.slug;
            let failed = client.call(tool, json!({"slug": slug})).await.expect_error(401, "missing_key");
            assert!(failed.message.contains("`edit_key`"), "{failed:?}");
            client.call(tool, json!({"slug": slug, "edit_key": null})).await.expect_error(401, "missing_key");
            for wrong in [json!(other), json!("hbk_short"), json!(format!("{other}{}", page.key))] {
                client.call(tool, json!({"slug": slug, "edit_key": wrong})).await.expect_error(401, "invalid_key");
            }
        }
        app.read(&page.slug).await.expect_status(200);
    }
}

#[tokio::test]
async fn a_slug_that_cannot_be_one_answers_404_and_reaches_no_store() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        for slug in ["", "noslug", "https://other.example/hello-2222bbbb", "../etc", "HELLO-2222bbbb"] {
            let failed = client.call("get_page", json!({"slug": slug})).await.expect_error(404, "not_found");
            assert_eq!(failed.message, ApiError::of(&ServiceError::NotFound, Interface::Mcp).message);
        }
    }
    assert_eq!(app.store.calls(), Calls::default());
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_invalid_body_and_the_message_names_the_field() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    let (slug, key) = (&page.slug, &page.key);
    let cases: [(&str, Value, &[&str]); 20] = [
        ("create_page", json!({}), &["`title`", "missing"]),
        ("create_page", json!({"title": "T"}), &["`content`", "missing"]),
        ("create_page", json!({"title": "T", "content": null}), &["`content`", "missing"]),
        ("create_page", json!({"title": 7, "content": "c"}), &["`title`", "as a string"]),
        ("create_page", json!({"title": "T", "content": ["c"]}), &["`content`", "as a string"]),
        ("create_page", json!({"title": "", "content": "c"}), &["`title`", "empty"]),
        ("create_page", json!({"title": "a\nb", "content": "c"}), &["`title`", "control characters"]),
        ("create_page", json!({"title": "T".repeat(MAX_CHARS + 1), "content": "c"}), &["`title`", "too long"]),
        ("create_page", json!({"title": "T", "content": "c", "tags": []}), &["`tags`", "`title` and `content`"]),
        ("get_page", json!({}), &["`slug`", "missing"]),
        ("get_page", json!({"slug": 7}), &["`slug`", "as a string"]),
        ("get_page", json!({"slug": slug, "include_html": "no"}), &["`include_html`", "`true` or `false`"]),
        ("get_page", json!({"slug": slug, "html": false}), &["`html`", "`slug`, `include_html`"]),
        ("update_page", json!({"edit_key": key}), &["`slug`", "missing"]),
        ("update_page", json!({"slug": slug, "edit_key": key, "title": {}}), &["`title`", "as a string"]),
        ("update_page", json!({"slug": slug, "edit_key": key, "text": "c"}), &["`text`", "`edit_key`, `title`"]),
        ("update_page", json!({"slug": slug, "edit_key": key, "content": key}), &["`content`", "edit key"]),
        ("delete_page", json!({"edit_key": key}), &["`slug`", "missing"]),
        ("delete_page", json!({"slug": slug, "edit_key": key, "sure": true}), &["`sure`", "`slug` and `edit_key`"]),
        ("delete_page", json!({"slug": [slug], "edit_key": key}), &["`slug`", "as a string"]),
    ];
    let before = app.page(slug).await;
    for client in Client::each(&app) {
        for (tool, arguments, told) in &cases {
            let failed = client.call(tool, arguments.clone()).await.expect_error(400, "invalid_body");
            for part in *told {
                assert!(failed.message.contains(part), "{tool} {arguments}: {failed:?} lacks {part}");
            }
        }
        client.call("create_page", json!({"title": "T", "content": ""})).await.expect_error(400, "empty_content");
        let empty = json!({"slug": slug, "edit_key": key, "content": ""});
        client.call("update_page", empty).await.expect_error(400, "empty_content");
    }
    assert_eq!(app.page(slug).await, before);
}

#[tokio::test]
async fn an_unknown_argument_that_could_be_a_key_is_not_repeated() {
    let app = TestApp::new();
    let page = app.published().await;
    let client = Client::new(&app, "2026-07-28");
    let mut arguments = json!({"slug": page.slug});
    arguments[&page.key] = json!(true);
    client.call("get_page", arguments).await.expect_error(400, "invalid_body");
}

#[tokio::test]
async fn content_over_its_limit_is_content_too_large() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    for client in Client::each(&app) {
        let content = "a".repeat(102_401);
        let failed = client.call("create_page", json!({"title": "T", "content": content})).await;
        assert!(failed.expect_error(413, "content_too_large").message.contains("102400"));
        // Size is judged before shape.
        let misshapen = json!({"title": 7, "content": content, "more": 1});
        client.call("create_page", misshapen).await.expect_error(413, "content_too_large");
        let update = json!({"slug": page.slug, "edit_key": page.key, "content": content});
        client.call("update_page", update).await.expect_error(413, "content_too_large");
        let fits = json!({"title": "T", "content": "a".repeat(102_400)});
        client.call("create_page", fits).await.done();
    }
}

#[tokio::test]
async fn a_store_out_of_reach_is_unavailable_and_says_when_to_come_back() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    for client in Client::each(&app) {
        app.store.next(Operation::Lookup, Fault::Unavailable);
        let failed = client.call("get_page", json!({"slug": page.slug})).await.expect_error(503, "unavailable");
        assert!(failed.message.contains("in 5 seconds"), "{failed:?}");
        app.store.next(Operation::Insert, Fault::NotDoneAndUnknown);
        let create = json!({"title": "T", "content": "c"});
        let failed = client.call("create_page", create).await.expect_error(503, "unavailable");
        assert!(failed.message.contains("may or may not"), "{failed:?}");
    }
}

#[tokio::test]
async fn an_unreadable_page_and_a_panic_are_internal_and_the_next_call_is_served() {
    let app = Setup::unlimited().start();
    let page = app.published().await;
    for client in Client::each(&app) {
        app.store.next(Operation::Lookup, Fault::Unreadable);
        client.call("get_page", json!({"slug": page.slug})).await.expect_error(500, "internal");
        app.store.next(Operation::Lookup, Fault::Panic);
        let call = client.call("get_page", json!({"slug": page.slug}));
        tokio::time::timeout(TEST_TIMEOUT, call).await.expect("it is answered").expect_error(500, "internal");
        client.call("get_page", json!({"slug": page.slug})).await.done();
    }
}

#[tokio::test]
async fn an_unknown_tool_is_invalid_params_and_the_message_names_the_tools() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        let answer = client.ask("tools/call", json!({"name": "publish", "arguments": {}})).await;
        let error = answer.refuses(200, -32602);
        for tool in ["create_page", "delete_page", "get_page", "update_page"] {
            assert!(error["message"].as_str().unwrap().contains(tool), "{error}");
        }
    }
}

#[tokio::test]
async fn calls_are_counted_by_tool_and_outcome_and_by_nothing_else() {
    let app = TestApp::new();
    let client = Client::new(&app, "2026-07-28");
    client.published().await;
    client.call("get_page", json!({"slug": NEVER_USED})).await.expect_error(404, "not_found");
    client.ask("tools/call", json!({"name": "invented-by-a-client", "arguments": {}})).await;
    let metrics = app.metrics.exposition();
    for line in [
        r#"handbill_mcp_tool_calls_total{tool="create_page",outcome="ok"} 1"#,
        r#"handbill_mcp_tool_calls_total{tool="get_page",outcome="not_found"} 1"#,
        r#"handbill_mcp_tool_calls_total{tool="_OTHER",outcome="unknown_tool"} 1"#,
        r#"http_route="/mcp""#,
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(!metrics.contains("invented") && !metrics.contains(NEVER_USED), "{metrics}");
}
