//! Which refusals come before the store is asked (contract, decision 1).

use serde_json::json;

use crate::in_process::app::Setup;
use crate::spec::order::{edit_malformed_slugs, exhaust_one_edit};

#[tokio::test]
async fn a_refused_client_reaches_no_store() {
    let app = Setup::new().limits(10, 1).start();
    let (page, _) = exhaust_one_edit(&app).await;
    let before = app.store.calls();
    app.update(&page, json!({"content": "new"})).await.expect_status(429);
    app.delete(&page).await.expect_status(429);
    assert_eq!(app.store.calls(), before);
}

#[tokio::test]
async fn a_malformed_slug_comes_before_the_store() {
    let app = Setup::new().limits(10, 1).start();
    let (page, _) = exhaust_one_edit(&app).await;
    let before = app.store.calls();
    edit_malformed_slugs(&app, &page).await;
    assert_eq!(app.store.calls(), before);
}
