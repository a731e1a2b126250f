//! What a preflight reaches (contract, decision 16).

use crate::spec::cors::preflights;
use crate::support::app::TestApp;

#[tokio::test]
async fn a_preflight_reaches_no_store() {
    let app = TestApp::new();
    let page = app.published().await;
    let before = app.store.calls();
    preflights(&app, &page).await;
    assert_eq!(app.store.calls(), before);
}
