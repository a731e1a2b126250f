//! Preflights and the stores (contract, decision 16).

use crate::in_process::app::TestApp;
use crate::spec::cors::preflights;

#[tokio::test]
async fn a_preflight_reaches_no_store() {
    let app = TestApp::new();
    let page = app.published().await;
    let before = app.store.calls();
    preflights(&app, &page).await;
    assert_eq!(app.store.calls(), before);
}
