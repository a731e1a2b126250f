//! Failed calls: their codes, and that the text alone is enough to recover (contract, decisions 3 and 15).

use serde_json::json;

use super::client::{Client, TEST_TIMEOUT};
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::stores::{Fault, Operation};

const NEVER_USED: &str = "never-was-2222bbbb";

#[tokio::test]
async fn an_outage_is_unavailable_and_says_when_to_come_back() {
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
async fn an_unreadable_page_and_a_panic_are_internal() {
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
async fn an_unknown_tool_is_invalid_params_and_names_the_tools() {
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
