//! MCP clients of both generations, and the conformance suite of the protocol.

use serde_json::Value;

use super::service::{Service, UNLIMITED};
use super::tools::{Client, sources};

/// A limit that any client reaches, however slow it is, and a wait that is short enough to sit out.
const SOON_LIMITED: [&str; 6] = ["--create-limit", "1", "--edit-limit", "0", "--rate-window", "10s"];

/// The client gets only the base URL. It publishes, edits, is refused and recovers, meets the limit and waits as told,
/// and deletes.
#[tokio::test]
async fn the_python_sdk_makes_the_journey() {
    let service = Service::start_with(&SOON_LIMITED);
    Client::python("journey.py").arg(service.url()).succeeds().await;
    service.stop();
}

/// A client that knows the older revision alone, and only the tools' own host.
#[tokio::test]
async fn the_first_typescript_sdk_edits_at_the_tools_own_host() {
    let (service, host) = Service::start_with_tools_host(&UNLIMITED);
    Client::node("v1.mjs").arg(host).succeeds().await;
    service.stop();
}

#[tokio::test]
async fn the_inspector_finds_the_schemas_of_the_tools_portable() {
    let service = Service::start();
    let inspector = Client::node_program("mcp-inspector").arg("--cli").arg(format!("{}/mcp", service.url()));
    let printed = inspector.args(["--transport", "http", "--method", "tools/list", "--strict"]).succeeds().await;
    let tools: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(tools["tools"].as_array().expect("a list").len(), 4);
    service.stop();
}

/// Scenarios whose outcome depends on the host: what there is, and who may ask for it. All others ask the same code at either host.
const OF_THE_HOST: [&str; 2] = ["tools-list", "dns-rebinding-protection"];

/// Runs every scenario of the suite that is open to a server without the suite's own prompts, resources and tools; at the tools' own
/// host those that depend on it.
/// `node/conformance-*.yaml` lists the known findings, with reasons; anything more or less fails.
async fn conforms(revision: &str, scenarios: &[&str]) {
    let (service, tools_host) = Service::start_with_tools_host(&UNLIMITED);
    let hosts = [(service.url(), scenarios), (tools_host, &OF_THE_HOST[..])];
    for (host, scenario) in
        hosts.iter().flat_map(|(host, scenarios)| scenarios.iter().map(move |scenario| (host, scenario)))
    {
        let suite = Client::node_program("conformance").args(["server", "--url"]).arg(format!("{host}/mcp"));
        let suite = suite.args(["--scenario", scenario, "--spec-version", revision, "--output-dir", "results"]);
        suite
            .arg("--expected-failures")
            .arg(sources("node").join(format!("conformance-{revision}.yaml")))
            .succeeds()
            .await;
    }
    service.stop();
}

#[tokio::test]
async fn the_conformance_suite_finds_what_is_known_of_2025_11_25() {
    let scenarios = [
        "server-initialize",
        "ping",
        "tools-list",
        "dns-rebinding-protection",
        "server-session-lifecycle",
        "server-sse-multiple-streams",
        "server-sse-polling",
    ];
    conforms("2025-11-25", &scenarios).await;
}

#[tokio::test]
async fn the_conformance_suite_finds_what_is_known_of_2026_07_28() {
    let scenarios = [
        "tools-list",
        "http-header-validation",
        "dns-rebinding-protection",
        "server-stateless",
        "caching",
        "sep-2164-resource-not-found",
        "server-sse-multiple-streams",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
        "input-required-result-missing-input-response",
        "input-required-result-ignore-extra-params",
    ];
    conforms("2026-07-28", &scenarios).await;
}
