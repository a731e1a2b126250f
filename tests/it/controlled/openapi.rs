//! The OpenAPI document of a service at another address (spec §4.7 and §9).

use handbill_pages::values::origin::Origin;

use crate::in_process::app::Setup;
use crate::support::document::Document;

#[tokio::test]
async fn the_document_names_the_base_url_and_no_version_in_its_paths() {
    let document = Setup::new().base_url("https://other.example").start().get("/openapi.json").await.json();
    assert_eq!(document["servers"][0]["url"], "https://other.example");
    for (_, path, _) in Document(document.clone()).operations() {
        assert!((path.starts_with("/api/pages") || path == "/oauth/token") && !path.contains("/v"), "{path}");
    }
    assert_eq!(handbill::http::openapi_document(&Origin::parse("https://other.example").unwrap(), None), {
        Setup::new().base_url("https://other.example").start().get("/openapi.json").await.text().to_owned()
    });
}
