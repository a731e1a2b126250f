//! Failed calls: their codes, and that the text alone is enough to recover (contract, decisions 3 and 15).

use std::iter::repeat_with;

use futures_util::future::join_all;
use handbill::http::metadata;
use serde_json::json;
use tokio::task::{spawn, yield_now};

use super::client::{Client, MODERN, TEST_TIMEOUT};
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::{Answer, NEVER_USED};
use crate::in_process::stores::{Fault, Operation};

#[tokio::test]
async fn an_outage_is_unavailable_and_says_when_to_come_back() {
    let (app, page) = Setup::unlimited().start_with_page().await;
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
async fn an_unreadable_page_and_a_panic_are_internal() {
    let (app, page) = Setup::unlimited().start_with_page().await;
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
async fn an_unknown_tool_is_invalid_params_and_names_the_tools() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        let answer = client.ask("tools/call", json!({"name": "publish", "arguments": {}})).await;
        let error = answer.refuses(200, -32602);
        for operation in metadata::OPERATIONS {
            assert!(error["message"].as_str().unwrap().contains(operation.tool), "{error}");
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

const MOST: usize = 16;

async fn delete(client: Client, (slug, key): (String, String)) -> Answer {
    client.ask("tools/call", json!({"name": "delete_page", "arguments": {"slug": slug, "edit_key": key}})).await
}

/// A service whose store does not finish a change, and `count` pages.
async fn hanging(count: usize) -> (TestApp, Client, Vec<(String, String)>) {
    let app = Setup::unlimited().start();
    let client = Client::new(&app, MODERN);
    let pages = join_all(repeat_with(|| client.published()).take(count)).await;
    tokio::time::pause();
    app.store.always(Operation::Swap, || Fault::Hang);
    (app, client, pages)
}

#[tokio::test]
async fn a_call_that_waits_a_second_for_its_turn_is_503() {
    let (_app, client, pages) = hanging(MOST + 1).await;
    let answers = join_all(pages.into_iter().map(|page| delete(client.clone(), page))).await;
    let (answered, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((answered.len(), refused.len()), (MOST, 1));
    let error = refused[0].refuses(503, -32600);
    assert_eq!(error["data"], json!({"error": "unavailable", "status": 503}));
    assert!(refused[0].retry_after() >= 1);
    client.ask("tools/list", json!({})).await.expect_status(200);
}

#[tokio::test]
async fn a_call_keeps_its_turn_when_its_client_goes_away() {
    let (app, client, pages) = hanging(MOST).await;
    let calls: Vec<_> = pages.into_iter().map(|page| spawn(delete(client.clone(), page))).collect();
    while app.store.calls().swaps < MOST {
        yield_now().await;
    }
    for call in calls {
        call.abort();
    }
    client.ask("tools/list", json!({})).await.refuses(503, -32600);
}
