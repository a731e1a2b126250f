//! The page that a request for a token looks up (spec §4.5).

use crate::in_process::app::TestApp;
use crate::spec::token::ask_without_credentials;

#[tokio::test]
async fn nobody_is_looked_for_who_has_not_said_who_they_are() {
    let app = TestApp::new();
    ask_without_credentials(&app).await;
    assert_eq!(app.store.calls().lookups, 0);
}
