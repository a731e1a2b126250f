//! MCP clients of both generations, and the conformance suite of the protocol.

use serde_json::{Value, json};

use super::service::{Service, UNLIMITED};
use super::tools::{Client, sources};

/// A limit that any client reaches, however slow it is, and a wait that is short enough to sit out.
const SOON_LIMITED: [&str; 6] = ["--create-limit", "1", "--edit-limit", "0", "--rate-window", "10s"];

/// The client gets only the base URL. It publishes, edits, is refused and recovers, meets the limit and waits as told,
/// and deletes.
async fn makes_the_journey(client: Client, mode: &[&str]) {
    let service = Service::start_with(&SOON_LIMITED).await;
    client.arg(service.url()).args(mode).succeeds().await;
    service.stop().await;
}

/// The same journey, for a client that knows only the tools' own host.
async fn makes_the_journey_at_the_tools_host(client: Client, mode: &[&str]) {
    let (service, host) = Service::start_with_tools_host(&SOON_LIMITED).await;
    client.arg(host).args(mode).succeeds().await;
    service.stop().await;
}

async fn sees_every_failure(mode: &str) {
    let service = Service::start().await;
    Client::python("failures.py").arg(service.url()).arg(mode).succeeds().await;
    service.stop().await;
}

#[tokio::test]
async fn the_python_sdk_makes_the_journey_by_the_protocol_of_2026_07_28() {
    makes_the_journey(Client::python("journey.py"), &["auto"]).await;
}

#[tokio::test]
async fn the_python_sdk_makes_the_journey_by_the_protocol_of_2025_11_25() {
    makes_the_journey(Client::python("journey.py"), &["legacy"]).await;
}

#[tokio::test]
async fn the_first_typescript_sdk_makes_the_journey_at_the_tools_own_host() {
    makes_the_journey_at_the_tools_host(Client::node("v1.mjs"), &[]).await;
}

#[tokio::test]
async fn the_python_sdk_is_told_of_every_failure_by_the_protocol_of_2026_07_28() {
    sees_every_failure("auto").await;
}

#[tokio::test]
async fn the_second_typescript_sdk_makes_the_journey_by_whatever_it_negotiates() {
    makes_the_journey(Client::node("v2.mjs"), &["auto"]).await;
}

#[tokio::test]
async fn the_inspector_lists_the_tools_and_finds_their_schemas_portable() {
    let service = Service::start().await;
    let tools = inspect(&service, &["tools/list", "--strict"]).await;
    let names: Vec<_> = tools["tools"].as_array().expect("a list").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["create_page", "delete_page", "get_page", "update_page"]);
    service.stop().await;
}

#[tokio::test]
async fn the_inspector_publishes_reads_edits_and_deletes() {
    let service = Service::start().await;
    let created = call(&service, "create_page", &["title=Inspected", "content=A *first* version."]).await;
    let (slug, key) = (argument("slug", &created), argument("edit_key", &created));
    call(&service, "update_page", &[&slug, &key, "content=A *second* version."]).await;
    let page = call(&service, "get_page", &[&slug]).await;
    assert_eq!((&page["title"], &page["content"]), (&json!("Inspected"), &json!("A *second* version.")));
    let deleted = call(&service, "delete_page", &[&slug, &key]).await;
    assert_eq!(deleted["deleted"], json!(true));
    service.stop().await;
}

fn argument(name: &str, created: &Value) -> String {
    format!("{name}={}", created[name].as_str().expect("it is text"))
}

/// The structured content of a tool's answer. The answer's text must say the same.
async fn call(service: &Service, tool: &str, arguments: &[&str]) -> Value {
    let mut line = vec!["tools/call", "--tool-name", tool];
    for argument in arguments {
        line.extend(["--tool-arg", argument]);
    }
    let result = inspect(service, &line).await;
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"));
    assert_eq!(serde_json::from_str::<Value>(text).expect("it is JSON"), result["structuredContent"]);
    result["structuredContent"].clone()
}

async fn inspect(service: &Service, method: &[&str]) -> Value {
    let inspector = Client::node_program("mcp-inspector").arg("--cli").arg(format!("{}/mcp", service.url()));
    let printed = inspector.args(["--transport", "http", "--method"]).args(method).succeeds().await;
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// Scenarios whose outcome depends on the host: what there is, and who may ask for it. All others ask the same code at either host.
const OF_THE_HOST: [&str; 2] = ["tools-list", "dns-rebinding-protection"];

/// Runs every scenario of the suite that is open to a server without the suite's own prompts, resources and tools; at the tools' own
/// host those that depend on it.
/// `node/conformance-*.yaml` lists the known findings, with reasons; anything more or less fails.
async fn conforms(revision: &str, scenarios: &[&str]) {
    let (service, tools_host) = Service::start_with_tools_host(&UNLIMITED).await;
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
    service.stop().await;
}

#[tokio::test]
async fn the_conformance_suite_finds_what_is_known_by_the_protocol_of_2025_11_25() {
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
async fn the_conformance_suite_finds_what_is_known_by_the_protocol_of_2026_07_28() {
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
