//! The service's statements about itself agree: the documents with each other, with the OpenAPI document, with the
//! routes and with what `/llms.txt` tells an agent to do.

use std::collections::BTreeSet;

use clap::{Command, Subcommand, ValueEnum};
use handbill::admin::records::Field;
use handbill::http::error::Code;
use handbill::http::metadata;
use handbill_client::ClientCommand;
use serde_json::{Value, json};

use super::discovery::{AGENT_CARD, CARD, DOCUMENTS, LLMS, PROTECTED_RESOURCE, json};
use super::form::{field as part, form};
use crate::in_process::app::{BASE_URL, Setup, TestApp};
use crate::in_process::document::DOCUMENT;
use crate::in_process::exchange::Request;
use crate::mcp::client::{Client, MODERN};

/// The MCP server is not a document, and has tests of its own.
const MCP: &str = "/mcp";

/// Every address of ours in `text`, without what comes before its path.
fn paths_of_ours(text: &str) -> BTreeSet<String> {
    let ends_an_address = |c: char| c.is_whitespace() || "\"'`<>(),;".contains(c);
    let paths = text.split(BASE_URL).skip(1).map(|rest| rest.split(ends_an_address).next().unwrap());
    let paths = paths.map(|path| path.trim_end_matches(['.', ':']));
    paths.map(|path| if path.is_empty() { "/".to_owned() } else { path.to_owned() }).collect()
}

#[tokio::test]
async fn every_field_that_a_create_takes_is_taken_and_shown_everywhere() {
    let schemas = &DOCUMENT.0["components"]["schemas"];
    let app = Setup::unlimited().start();
    let edit = app.get("/a-page-22222222/edit").await;
    let client = ClientCommand::augment_subcommands(Command::new("handbill"));
    let takes = |command: &Command, name: &str, field: &str| {
        let command = command.find_subcommand(name).unwrap();
        command.get_arguments().any(|argument| argument.get_long() == Some(field))
    };
    let listed = Field::value_variants().iter().filter_map(Field::to_possible_value);
    let listed: Vec<_> = listed.map(|field| field.get_name().to_owned()).collect();
    let agent = Client::new(&app, MODERN);
    let tools = agent.tools().await;
    let fields = schemas["CreatePage"]["properties"].as_object().unwrap().keys();
    for field in fields.filter(|field| !["content", "edit_key"].contains(&field.as_str())) {
        assert!(edit.text().contains(&format!(r#"id="{field}""#)), "the page for editing: {field}");
        assert!(schemas["PagePart"]["properties"].get(field).is_some(), "the schema of a part: {field}");
        let longest = schemas["CreatePage"]["properties"][field]["maxLength"].as_u64().unwrap();
        for schema in ["UpdatePage", "Page"] {
            assert_eq!(schemas[schema]["properties"][field]["maxLength"], longest, "{schema}: {field}");
        }
        for name in ["create_page", "update_page"] {
            let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
            assert_eq!(tool["inputSchema"]["properties"][field]["maxLength"], longest, "{name}: {field}");
        }
        assert!(listed.contains(field), "export --fields: {field}");
        assert!(["publish", "update"].iter().all(|name| takes(&client, name, field)), "the client: {field}");
        let (first, second) = (format!("<i>{field}"), format!("<b>{field}"));
        let with = |value: &str| {
            let mut sent = json!({"title": "A title", "content": "A text."});
            sent[field] = json!(value);
            sent
        };
        let escaped = first.replace('<', "&#60;").replace('>', "&#62;");
        let form = |value: &str, action: &str| {
            let sent = with(value);
            let parts = sent.as_object().unwrap().iter().map(|(name, text)| part(name, text.as_str().unwrap()));
            form(&parts.chain([part("action", action)]).collect::<Vec<_>>())
        };
        let posted = app.send(form(&first, "publish").header("accept", "application/json")).await;
        let raw = Request::new("POST", format!("/?{field}=%3Ci%3E{field}")).header("content-type", "text/markdown");
        let raw = app.send(raw.header("accept", "application/json").body("# A heading")).await;
        let answered = app.create(with(&first).to_string()).await;
        let called = agent.call("create_page", with(&first)).await.done();
        for created in [
            posted.expect_status(201).json(),
            raw.expect_status(201).json(),
            answered.expect_status(201).json(),
            called,
        ] {
            let [slug, key] = ["slug", "edit_key"].map(|name| created[name].as_str().unwrap());
            assert_eq!(app.page(slug).await[field], first, "{created}");
            assert!(app.get(&format!("/{slug}")).await.text().contains(&escaped), "the page for people: {field}");
            let part = app.get(&format!("/api/pages/{slug}?max_chars=1")).await.json();
            assert_eq!(part[field], first, "a part");
            let change = json!({"slug": slug, "edit_key": key, field: second});
            assert_eq!(agent.call("update_page", change).await.done()[field], second);
            let updated = app.send(Request::update(slug, json!({field: first}).to_string()).key(key)).await;
            assert_eq!(updated.json()[field], first);
        }
        let (page, longest) = (app.published().await, usize::try_from(longest).unwrap());
        for (value, status) in [
            (json!("a".repeat(longest)), 200),
            (json!("a".repeat(longest + 1)), 400),
            (json!(page.key), 400),
            (Value::Null, 200),
        ] {
            app.update(&page, json!({field: value})).await.expect_status(status);
        }
        assert_eq!(app.page(&page.slug).await[field], Value::Null);
        let warned = app.send(form(&page.key, "preview").header("accept", "text/html")).await;
        assert!(warned.text().contains("<span>Your text contains what looks like an edit key."), "the form: {field}");
        let shown = app.send(form(&first, "preview").header("accept", "text/html")).await;
        let given_back = shown
            .text()
            .split("</textarea>")
            .any(|text| text.contains(&format!(r#"name="{field}""#)) && text.ends_with(&escaped));
        assert!(given_back, "the form: {field}");
    }
}

#[tokio::test]
async fn every_address_of_ours_that_a_document_gives_is_routed() {
    let app = TestApp::new();
    let mut given = BTreeSet::new();
    for (path, _) in DOCUMENTS {
        given.extend(paths_of_ours(app.get(path).await.text()));
    }
    for page in ["/", "/help"] {
        given.extend(paths_of_ours(app.get(page).await.text()));
    }
    for needed in ["/oauth/token", "/mcp", "/openapi.json", "/llms.txt", "/favicon.ico", "/api/pages"] {
        assert!(given.contains(needed), "{needed} is not in {given:?}");
    }
    // The examples name a page that does not exist, so only the form of its address can be checked.
    let is_of_an_example = |path: &str| path.contains("hello-") || path.starts_with("/api/pages/");
    for path in given.iter().filter(|path| *path != MCP && !is_of_an_example(path)) {
        let answer = app.get(path).await;
        let takes_post = answer.status == 405 && answer.members("allow").contains(&"post".to_owned());
        assert!(answer.status == 200 || takes_post, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn names_and_versions_are_the_same_in_every_document() {
    let (openapi, card, agent) = (json("/openapi.json").await, json(CARD).await, json(AGENT_CARD).await);
    let resource = json(PROTECTED_RESOURCE).await;
    for (document, name) in [
        (&openapi["info"]["title"], "info"),
        (&card["title"], "card"),
        (&agent["name"], "agent"),
        (&resource["resource_name"], "resource"),
    ] {
        assert_eq!(document, metadata::TITLE, "{name}");
    }
    for version in [&openapi["info"]["version"], &agent["version"]] {
        assert_eq!(version, "0.1.0");
    }
    // The version of the MCP server is the version of the program, not of an interface.
    assert_eq!(card["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn every_operation_on_a_page_is_a_tool_and_a_skill_alone() {
    let of_openapi: BTreeSet<&str> = DOCUMENT
        .operations()
        .iter()
        .filter(|(_, path, _)| path.starts_with("/api/pages"))
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap())
        .collect();
    let described = metadata::OPERATIONS.iter().map(|operation| operation.operation_id);
    assert_eq!(described.collect::<BTreeSet<_>>(), of_openapi);
    let tools = metadata::OPERATIONS.map(|operation| operation.tool);
    assert_eq!(tools, ["create_page", "get_page", "update_page", "delete_page"]);
    let agent = json(AGENT_CARD).await;
    let skills: Vec<&str> =
        agent["skills"].as_array().unwrap().iter().map(|skill| skill["id"].as_str().unwrap()).collect();
    assert_eq!(skills, tools);
    let llms = TestApp::new().get(LLMS).await;
    assert!(tools.iter().all(|tool| llms.text().contains(&format!("- `{tool}`: "))), "{}", llms.text());
    let (api, monitoring) = (include_str!("../../../docs/api.md"), include_str!("../../../docs/monitoring.md"));
    for tool in tools.map(|tool| format!("`{tool}`")) {
        assert!(api.contains(&tool) && monitoring.contains(&tool), "docs/api.md and docs/monitoring.md: {tool}");
    }
    for (method, path, _) in DOCUMENT.operations() {
        let request = format!("`{} {}`", method.to_uppercase(), path.replace("{slug}", "<slug>"));
        assert!(api.contains(&request), "docs/api.md: {request}");
        assert!(monitoring.contains(&format!("`{path}`")), "docs/monitoring.md: {path}");
    }
}

#[tokio::test]
async fn llms_txt_and_the_documentation_add_the_server_alike() {
    let docs = include_str!("../../../docs/client.md");
    let llms = TestApp::new().get(LLMS).await;
    for program in ["claude mcp add", "codex mcp add", "gemini mcp add", "code --add-mcp"] {
        let line = docs.split('`').find(|code| code.starts_with(program)).unwrap_or_else(|| panic!("{program}"));
        assert!(llms.text().contains(&format!("    {line}\n")), "{line}: {}", llms.text());
    }
}

#[tokio::test]
async fn llms_txt_tells_the_limits_in_force_and_every_error() {
    let text = Setup::new().limits(0, 7).token_limit(0).start().get(LLMS).await.text().to_owned();
    assert!(text.contains("- Creates: not limited."), "{text}");
    assert!(text.contains("- Edits and deletes: 7 per client in any 1h."), "{text}");
    assert!(text.contains("- Tokens: not limited."), "{text}");
    for code in Code::all() {
        assert!(text.contains(&format!("- {} `{}`: ", code.status(), code.as_str())), "{}", code.as_str());
    }
}

#[tokio::test]
async fn the_examples_of_llms_txt_work_as_they_are_written() {
    let app = TestApp::new();
    let text = app.get(LLMS).await.text().to_owned();
    let bodies: Vec<&str> = text.split("-d '").skip(1).map(|rest| rest.split('\'').next().unwrap()).collect();
    let [create, update, edits, call] = bodies.as_slice() else { panic!("{bodies:?}") };
    let created = app.create((*create).to_owned()).await;
    let (slug, key) = (created.expect_status(201).field("slug"), created.field("edit_key"));
    for body in [update, edits] {
        app.send(Request::update(&slug, (*body).to_owned()).key(&key)).await.expect_status(200);
    }
    let answer = app.send(Request::new("POST", "/mcp").json(call.replace("<slug>", &slug))).await;
    assert_eq!(answer.json()["result"]["structuredContent"]["content"], "My *third* thoughts.");
    assert!(text.contains(&format!("`{BASE_URL}/<slug>`")));
}

#[tokio::test]
async fn no_document_gives_an_address_of_another_origin() {
    let app = Setup::new().base_url("http://127.0.0.1:18080").start();
    for (path, _) in DOCUMENTS {
        let text = app.get(path).await.text().to_owned();
        for (at, _) in text.match_indices("://") {
            let scheme = text[..at].rfind(|c: char| !c.is_ascii_alphabetic()).map_or(0, |before| before + 1);
            let address = &text[scheme..];
            let known = [
                "http://127.0.0.1:18080",
                "https://static.modelcontextprotocol.io/schemas/",
                "https://modelcontextprotocol.io/specification/",
                "https://schemas.agentskills.io/discovery/",
                // An example of an address in the OpenAPI document.
                "https://pages.example/",
            ];
            assert!(known.iter().any(|origin| address.starts_with(origin)), "{path}: {}", &address[..60]);
        }
    }
}

#[tokio::test]
async fn a_host_that_a_request_names_is_in_no_answer() {
    const HOST: &str = "poison.example";
    let app = TestApp::new();
    let (page, gone) = (app.published().await, app.deleted().await);
    let named = |request: Request| {
        let forwarded = format!("for=192.0.2.9;host={HOST};proto=https");
        let request = request.header("host", HOST).header("x-forwarded-host", HOST).header("forwarded", forwarded);
        request.header("x-original-url", format!("https://{HOST}/")).header("x-forwarded-proto", "gopher")
    };
    let mut requests: Vec<Request> = DOCUMENTS.iter().map(|(path, _)| Request::get(*path)).collect();
    for target in ["/".to_owned(), "/nowhere".to_owned(), "/favicon.ico".to_owned(), "/robots.txt".to_owned()] {
        requests.push(Request::get(target));
    }
    for slug in [&page.slug, &gone.slug] {
        for target in [format!("/{slug}"), format!("/{slug}.md"), format!("/api/pages/{slug}")] {
            requests.push(Request::get(target));
        }
    }
    requests.push(Request::update(&page.slug, "{}"));
    requests.push(Request::create(r#"{"title": "Another", "content": "Page"}"#));
    requests.push(Request::token("grant_type=client_credentials"));
    for request in requests {
        let target = request.target.clone();
        let answer = app.send(named(request)).await;
        assert!(!format!("{:?}", answer.headers).contains(HOST), "{target}: {answer:?}");
        assert!(!answer.text().contains(HOST) && !answer.text().contains("gopher"), "{target}: {answer:?}");
    }
}
