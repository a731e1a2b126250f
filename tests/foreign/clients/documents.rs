//! The documents that the service publishes, each checked by a validator of its own field.

use super::service::Service;
use super::tools::{Client, sources};

fn with_openapi(client: Client) -> Client {
    let service = Service::start();
    let document = service.document("/openapi.json");
    service.stop();
    client.with_file("openapi.json", document)
}

#[tokio::test]
async fn openapi_spec_validator_finds_the_openapi_document_valid() {
    with_openapi(Client::python_program("openapi-spec-validator")).arg("openapi.json").succeeds().await;
}

#[tokio::test]
async fn redocly_finds_nothing_in_the_openapi_document() {
    let lint = Client::node_program("redocly").args(["lint", "--extends", "recommended-strict", "openapi.json"]);
    with_openapi(lint).succeeds().await;
}

#[tokio::test]
async fn spectral_finds_nothing_in_the_openapi_document() {
    let rules = sources("node").join("spectral.yaml");
    let lint = Client::node_program("spectral").args(["lint", "--fail-severity", "hint", "--ruleset"]).arg(rules);
    with_openapi(lint.arg("openapi.json")).succeeds().await;
}

#[tokio::test]
async fn schemathesis_finds_no_difference_to_the_openapi_document() {
    let service = Service::start();
    let run =
        Client::python_program("schemathesis").arg("--config-file").arg(sources("python").join("schemathesis.toml"));
    let run = run.arg("run").arg(format!("{}/openapi.json", service.url()));
    let run = run.env("SCHEMATHESIS_HOOKS", sources("python").join("known_pages.py"));
    let report = run.succeeds().await;
    for phase in ["Examples", "Coverage", "Fuzzing", "Stateful"] {
        assert!(report.contains(&format!("\u{2705} {phase}\n")), "{phase} ran: {report}");
    }
    service.stop();
}

#[tokio::test]
async fn a2a_sdk_and_the_schema_of_server_cards_find_the_cards_valid() {
    let service = Service::start();
    Client::python("cards.py").arg(service.url()).succeeds().await;
    service.stop();
}

#[tokio::test]
async fn authlib_and_the_mcp_sdk_find_the_oauth_metadata_valid() {
    let service = Service::start();
    Client::python("metadata.py").arg(service.url()).succeeds().await;
    service.stop();
}
