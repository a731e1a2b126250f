//! OAuth clients get tokens, and use them.

use super::service::Service;
use super::tools::Client;

async fn gets_tokens(library: &str, authentication: &str) {
    let service = Service::start();
    Client::python("tokens.py").arg(service.url()).args([library, authentication]).succeeds().await;
    service.stop();
}

#[tokio::test]
async fn authlib_edits_and_deletes_by_http_basic() {
    gets_tokens("authlib", "client_secret_basic").await;
}

#[tokio::test]
async fn requests_oauthlib_edits_and_deletes_by_the_form() {
    gets_tokens("requests-oauthlib", "client_secret_post").await;
}
