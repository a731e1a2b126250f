//! Edit keys as the store knows them (spec §2.4).

use crate::in_process::app::TestApp;

#[tokio::test]
async fn a_page_s_key_is_stored_as_a_hash_alone() {
    let app = TestApp::new();
    let page = app.published().await;
    let stored = format!("{:?}", app.stored(&page.slug).await);
    assert!(!stored.contains(&page.key[4..]), "{stored}");
}
