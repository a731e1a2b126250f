//! Errors that a load balancer or the HTTP library would answer itself (spec §7; contract, decision 3).

use crate::sections::errors::{ask_in_malformed_percent_encoding, no_route_takes, requests};
use crate::support::app::TestApp;
use crate::support::stores::Calls;

#[tokio::test]
async fn connect_is_a_method_like_any_other() {
    // A load balancer takes it for a request to open a tunnel, and refuses it for its target.
    no_route_takes(&["CONNECT"]).await;
}

#[tokio::test]
async fn a_head_of_very_many_headers_answers_431_on_every_route() {
    // Through a network, hyper refuses more than a hundred of them before there is a request.
    let app = TestApp::new();
    let page = app.published().await;
    let before = app.page(&page.slug).await;
    for request in requests(&page) {
        let many = (0..400).fold(request, |request, number| request.header(&format!("x-{number}"), "x".repeat(100)));
        app.send(many).await.fails(431, "headers_too_large");
    }
    assert_eq!(app.page(&page.slug).await, before);
}

#[tokio::test]
async fn malformed_percent_encoding_reaches_no_store() {
    let app = TestApp::new();
    ask_in_malformed_percent_encoding(&app).await;
    assert_eq!(app.store.calls(), Calls::default());
}
