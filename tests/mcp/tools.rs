//! The four tools: what is told of them, and what they do (contract, decision 15).

use serde_json::json;

use crate::client::Client;
use crate::support::app::TestApp;

#[tokio::test]
async fn the_four_tools_do_what_rest_does() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        let (slug, key) = client.published().await;
        let page = client.call("get_page", json!({"slug": slug})).await.done();
        assert_eq!(page, app.page(&slug).await);
        let arguments = json!({"slug": slug, "edit_key": key, "title": "Hello again", "content": "New."});
        let updated = client.call("update_page", arguments).await.done();
        assert_eq!((&updated["title"], &updated["content"]), (&json!("Hello again"), &json!("New.")));
        assert_eq!(updated, app.page(&slug).await);
        let deleted = client.call("delete_page", json!({"slug": slug, "edit_key": key})).await.done();
        assert_eq!(deleted, json!({"slug": slug, "deleted": true}));
        app.read(&slug).await.fails(410, "gone");
    }
}
