//! Single documents of a service at another address (spec §4.7).

use crate::in_process::app::Setup;
use crate::spec::discovery::{AI_CATALOG, CARD};

#[tokio::test]
async fn the_ai_catalog_leads_to_the_server_card() {
    let app = Setup::new().base_url("http://pages.example:8080").start();
    let catalog = app.get(AI_CATALOG).await.json();
    assert_eq!(catalog["specVersion"], "1.0");
    let [entry] = catalog["entries"].as_array().unwrap().as_slice() else { panic!("{catalog}") };
    assert_eq!(entry["identifier"], "urn:air:pages.example:mcp:handbill");
    assert_eq!(entry["url"], "http://pages.example:8080/mcp/server-card");
    assert_eq!(entry["type"], app.get(CARD).await.header("content-type"));
}
