//! The examples for agents in `docs/client.md`, taken out of it and run as they are, except for the address.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::service::Service;
use super::tools::Client;

const ADDRESS: &str = "http://127.0.0.1:8080";

/// The code block in this language in the document's section, with the address of `service` in place of the document's.
fn example(language: &str, service: &Service) -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/client.md");
    let document = fs::read_to_string(document).expect("it is there");
    let (_, section) = document.split_once("\n### In a configuration or a program\n").expect("it has the section");
    let section = section.split("\n### ").next().unwrap_or_default();
    let begin = format!("\n```{language}\n");
    let mut blocks = section.split(&begin).skip(1);
    let block = blocks.next().and_then(|block| block.split("\n```\n").next());
    let block = block.unwrap_or_else(|| panic!("the section has an example in {language}"));
    assert!(blocks.next().is_none() && block.contains(ADDRESS), "one example, at {ADDRESS}: {block}");
    block.replace(ADDRESS, &service.url())
}

#[tokio::test]
async fn the_documented_configuration_adds_the_server_to_a_client() {
    let service = Service::start();
    let inspector = Client::node_program("mcp-inspector").with_file("mcp.json", example("json", &service));
    let line = ["--cli", "--config", "mcp.json", "--server", "handbill", "--method", "tools/list"];
    let printed = inspector.args(line).succeeds().await;
    let listed: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(4), "{printed}");
    service.stop();
}

fn published_and_edited(service: Service, printed: &str) {
    let (first, last) = printed.trim_end().split_once('\n').unwrap_or_else(|| panic!("two lines: {printed}"));
    let published = format!("Published at {}/hello-", service.url());
    assert!(first.starts_with(&published) && first.contains(" with the key hbk_"), "{printed}");
    assert_eq!(last, "Changed by an *agent*.");
    service.stop();
}

#[tokio::test]
async fn the_documented_python_publishes_edits_and_reads() {
    let service = Service::start();
    let python = Client::python_program("python").with_file("example.py", example("python", &service));
    let printed = python.arg("example.py").succeeds().await;
    published_and_edited(service, &printed);
}

#[tokio::test]
async fn the_documented_typescript_publishes_edits_and_reads() {
    let service = Service::start();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("example.mts"), example("ts", &service)).expect("it can be written");
    let printed = Client::node_in(folder.path(), "example.mts").succeeds().await;
    published_and_edited(service, &printed);
}
