//! The number of calls that are answered at once.

use std::iter::repeat_with;

use futures_util::future::join_all;
use serde_json::json;
use tokio::task::{spawn, yield_now};

use super::client::Client;
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::stores::{Fault, Operation};
use crate::support::exchange::Answer;
use crate::support::revision::MODERN;

/// Most calls at once.
const MOST: usize = 16;

/// The deletion of a page that the store does not finish.
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
