//! Sends requests with and without the router, and compares the answers.

use http::HeaderMap;

use super::app::TestApp;
use crate::support::exchange::{Answer, Request};

/// `request`, which takes the way through the router because of a header that no answer depends on: its sender is not a
/// trusted proxy, and that is counted there.
pub(crate) fn routed(request: Request) -> Request {
    request.header("x-forwarded-for", "192.0.2.7")
}

/// Sends the request twice, so that the page is ready the second time, and once through the router.
pub(crate) async fn both_ways(app: &TestApp, request: impl Fn() -> Request) -> (Answer, Answer) {
    app.answer_to_any(request()).await;
    (app.answer_to_any(request()).await, app.answer_to_any(routed(request())).await)
}

/// Fails unless both answers are the same, but for their ids.
pub(crate) fn assert_same(ready: &Answer, routed: &Answer, what: &str) {
    assert_eq!(ready.status, routed.status, "{what}");
    assert_eq!(fields(ready), fields(routed), "{what}");
    assert_eq!(ready.body, routed.body, "{what}");
}

/// The fields of `answer`, where the id is only present or absent.
fn fields(answer: &Answer) -> HeaderMap {
    let mut fields = answer.headers.clone();
    if let Some(id) = fields.get_mut("x-request-id") {
        assert_eq!(id.len(), 16, "{answer:?}");
        *id = "an id".parse().unwrap();
    }
    fields
}
