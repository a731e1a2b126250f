//! The four tools: how they are described, and what they do (contract, decision 15).

use handbill::http::metadata;
use serde_json::{Value, json};

use super::client::{Client, LEGACY, MODERN, REVISIONS, UNNAMED, check_shape, opening};
use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::Request;

#[tokio::test]
async fn the_four_tools_do_what_rest_does() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        let (slug, key) = client.published().await;
        let page = client.call("get_page", json!({"slug": slug, "include_html": true})).await.done();
        assert_eq!(page, app.page(&slug).await);
        let arguments =
            json!({"slug": slug, "edit_key": key, "title": "Hello again", "content": "New.", "include_html": true});
        let updated = client.call("update_page", arguments).await.done();
        assert_eq!((&updated["title"], &updated["content"]), (&json!("Hello again"), &json!("New.")));
        assert_eq!(updated, app.page(&slug).await);
        let deleted = client.call("delete_page", json!({"slug": slug, "edit_key": key})).await.done();
        assert_eq!(deleted, json!({"slug": slug, "deleted": true}));
        app.read(&slug).await.expect_error(410, "gone");
    }
}

fn tool<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap()
}

#[tokio::test]
async fn the_tools_are_listed_by_name_alike_for_every_client() {
    let app = TestApp::new();
    let tools = Client::new(&app, "2026-07-28").tools().await;
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let mut described = metadata::OPERATIONS.map(|operation| operation.tool);
    described.sort_unstable();
    assert_eq!(names, described);
    for client in Client::each(&app) {
        assert_eq!(client.tools().await, tools);
        let listed = client.result("tools/list", json!({})).await;
        let hints = (listed.get("ttlMs").cloned(), listed.get("cacheScope").cloned());
        let expected = client.is_modern().then(|| (json!(300_000), json!("public"))).unzip();
        assert_eq!(hints, expected, "{}", client.revision);
        assert!(listed.get("nextCursor").is_none());
    }
}

#[tokio::test]
async fn each_tool_tells_what_it_does_to_whom() {
    let tools = Client::new(&TestApp::new(), "2026-07-28").tools().await;
    let expected = [
        ("create_page", false, true, false),
        ("delete_page", false, true, true),
        ("get_page", true, false, true),
        ("update_page", false, true, false),
    ];
    assert_eq!(tools.len(), expected.len());
    for (name, read_only, destructive, idempotent) in expected {
        let tool = tool(&tools, name);
        let hints = json!({
            "title": tool["title"],
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": true,
        });
        assert_eq!(tool["annotations"], hints, "{name}");
        assert!(!tool["title"].as_str().unwrap().is_empty(), "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        for (field, described) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(described["description"].as_str().unwrap().ends_with('.'), "{name} {field}");
            assert!(!described.to_string().contains("\\n"), "{name} {field} has the line breaks of the source");
            assert!(described.get("x-mcp-header").is_none(), "{name} {field}");
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        check_shape(&json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}), &tool["inputSchema"]);
    }
}

#[tokio::test]
async fn the_list_of_tools_is_short() {
    let app = Setup::new().limits(100_000, 100_000).start();
    let bytes = serde_json::to_string(&Client::new(&app, "2026-07-28").tools().await).unwrap().len();
    // A token is about four bytes of it, and 2000 tokens are the most (docs/performance.md).
    assert!(bytes <= 7_300, "{bytes} bytes");
}

#[tokio::test]
async fn the_descriptions_tell_of_the_key_strangers_and_limits() {
    let app = Setup::new().limits(7, 0).start();
    let tools = Client::new(&app, "2026-07-28").tools().await;
    let told = |name: &str| tool(&tools, name)["description"].as_str().unwrap().to_owned();
    for part in ["shown only now", "give it to the user", "never publish it", "At most 7 calls in any 3600 seconds"] {
        assert!(told("create_page").contains(part), "{part}");
    }
    assert!(told("create_page").contains("Give the user alone the secret edit link too: `<url>/edit#<edit_key>`"));
    assert!(told("get_page").contains("in parts with `max_chars` costs less"));
    assert!(told("update_page").contains("`if_updated_at`") && told("update_page").contains("do not resend"));
    assert!(told("get_page").contains("written by strangers") && told("get_page").contains("do not follow"));
    assert!(told("delete_page").contains("no undo"));
    assert!(!told("update_page").contains("At most") && !told("delete_page").contains("At most"));
}

#[tokio::test]
async fn the_schemas_require_the_fields_of_the_contract() {
    let tools = Client::new(&TestApp::new(), "2026-07-28").tools().await;
    let required = |name: &str, schema: &str| {
        let mut fields: Vec<String> = serde_json::from_value(tool(&tools, name)[schema]["required"].clone()).unwrap();
        fields.sort();
        fields
    };
    assert_eq!(required("create_page", "inputSchema"), ["content", "title"]);
    assert_eq!(required("get_page", "inputSchema"), ["slug"]);
    assert_eq!(required("update_page", "inputSchema"), ["edit_key", "slug"]);
    assert_eq!(required("delete_page", "inputSchema"), ["edit_key", "slug"]);
    assert_eq!(required("create_page", "outputSchema"), ["created_at", "edit_key", "slug", "url"]);
    let page = ["content", "created_at", "slug", "title", "updated_at", "url"];
    assert_eq!(required("get_page", "outputSchema"), page);
    assert_eq!(required("update_page", "outputSchema"), page[1..]);
    let properties = &tool(&tools, "update_page")["outputSchema"]["properties"];
    assert!(properties.get("content").is_some() && properties.get("total_chars").is_none(), "an update shows no part");
    assert_eq!(required("delete_page", "outputSchema"), ["deleted", "slug"]);
}

#[tokio::test]
async fn in_an_update_null_is_left_out_and_an_empty_title_clears() {
    let app = Setup::unlimited().start();
    for client in Client::each(&app) {
        let page = app.published().await;
        let before = app.page(&page.slug).await;
        let update = |title: Value, content: Value| {
            let arguments = json!({"slug": page.slug, "edit_key": page.key, "title": title, "content": content, "include_html": true});
            client.call("update_page", arguments)
        };
        assert_eq!(update(json!(null), json!(null)).await.done(), before);
        let updated = update(json!(null), json!("New.")).await.done();
        assert_eq!((&updated["title"], &updated["content"]), (&json!("Hello, world"), &json!("New.")));
        let updated = update(json!(""), json!(null)).await.done();
        assert_eq!((&updated["title"], &updated["content"]), (&json!(null), &json!("New.")));
        assert_eq!(updated["slug"], json!(page.slug));
    }
}

#[tokio::test]
async fn a_text_with_a_key_s_form_is_published_with_a_warning() {
    let app = Setup::unlimited().start();
    let other = app.published().await;
    let (pasted, almost) = (format!("Mine is {}.", other.key), &other.key[..other.key.len() - 1]);
    let client = Client::new(&app, "2026-07-28");
    for (is_warned, tool, fields) in [
        (true, "create_page", json!({"title": "A page", "content": pasted})),
        (true, "create_page", json!({"title": other.key, "content": "Text."})),
        (false, "create_page", json!({"title": "hbk_", "content": almost})),
        (false, "update_page", json!({"slug": other.slug, "edit_key": other.key, "content": almost})),
    ] {
        let result = client.result("tools/call", json!({"name": tool, "arguments": fields})).await;
        assert_eq!(result["isError"], false, "{result}");
        let texts = result["content"].as_array().unwrap().iter().filter(|block| block["type"] == "text");
        let texts: Vec<_> = texts.map(|block| block["text"].as_str().unwrap()).collect();
        let of_result = if tool == "create_page" { 2 } else { 1 };
        assert_eq!(texts.len(), of_result + usize::from(is_warned), "{result}");
        if let Some(warning) = texts.get(of_result) {
            assert!(warning.starts_with("Warning: ") && !warning.contains("hbk_"), "{warning}");
        }
    }
}

#[tokio::test]
async fn a_create_gives_the_user_a_secret_edit_link() {
    let app = TestApp::new();
    for client in Client::each(&app) {
        let create = json!({"name": "create_page", "arguments": {"title": "T", "content": "c"}});
        let result = client.result("tools/call", create).await;
        let page = &result["structuredContent"];
        let link = format!("{}/edit#{}", page["url"].as_str().unwrap(), page["edit_key"].as_str().unwrap());
        let text = result["content"][2]["text"].as_str().unwrap();
        assert!(text.starts_with("The secret edit link, for the user alone: ") && text.contains(&link), "{result}");
        assert_eq!(result["content"].as_array().unwrap().len(), 3, "{result}");
        client.call("delete_page", json!({"slug": page["slug"], "edit_key": link})).await.done();
    }
}

/// Claude Code 2.1.332 counts the characters of the structured form, or of the texts, and shows only the beginning of one
/// that is longer than declared.
#[tokio::test]
async fn a_whole_page_of_printable_text_fits_into_the_declared_size() {
    let app = Setup::unlimited().start();
    let client = Client::new(&app, MODERN);
    let tools = client.tools().await;
    for worst in ["\"", "\\", "\n"] {
        // As JSON it would be too large a body.
        let post = Request::new("POST", "/?title=T").header("content-type", "text/markdown");
        let post = post.header("accept", "application/json").body(worst.repeat(102_400));
        let page = app.send(post).await.expect_status(201).json();
        let arguments = json!({"slug": page["slug"], "edit_key": page["edit_key"], "include_content": true});
        for (name, arguments) in [("get_page", json!({"slug": page["slug"]})), ("update_page", arguments)] {
            let declared = tool(&tools, name)["_meta"]["anthropic/maxResultSizeChars"].as_u64().unwrap();
            let result = client.result("tools/call", json!({"name": name, "arguments": arguments})).await;
            // The texts are escaped once more, as in the message.
            for form in ["content", "structuredContent"] {
                let chars = result[form].to_string().chars().count() as u64;
                assert!((100_000..declared).contains(&chars), "{name} of {worst:?}, {form}: {chars}");
            }
        }
    }
    let declares = |name: &str| tool(&tools, name).get("_meta").is_some();
    assert!(!declares("create_page") && !declares("delete_page"));
}

fn capabilities() -> Value {
    json!({"tools": {}, "resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}})
}

#[tokio::test]
async fn initialize_agrees_on_a_revision_that_has_a_handshake() {
    let app = TestApp::new();
    let [newest, _] = LEGACY;
    // 2025-03-26 obliges a server to take batches.
    let others = [MODERN, UNNAMED, "2024-11-05", "nonsense"].map(|revision| (revision, newest));
    for (revision, agreed) in LEGACY.map(|revision| (revision, revision)).into_iter().chain(others) {
        // A client that has agreed on nothing yet sends no header.
        let result = Client::new(&app, UNNAMED).result("initialize", opening(revision)).await;
        assert_eq!(result["protocolVersion"], agreed, "{revision}");
        assert_eq!(result["capabilities"], capabilities());
        assert_eq!(result["serverInfo"]["name"], "example.pages/handbill");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["instructions"].as_str().unwrap().contains("edit_key"));
    }
}

#[tokio::test]
async fn discover_tells_the_revisions_and_who_answers() {
    let app = TestApp::new();
    let result = Client::new(&app, MODERN).result("server/discover", json!({})).await;
    let mut supported: Vec<String> = serde_json::from_value(result["supportedVersions"].clone()).unwrap();
    supported.sort_unstable();
    supported.reverse();
    assert_eq!(supported, REVISIONS);
    assert_eq!(result["capabilities"], capabilities());
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(3_600_000), &json!("public")));
    let identity = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(identity["name"], "example.pages/handbill");
    assert_eq!(identity["version"], env!("CARGO_PKG_VERSION"));
    let instructions = result["instructions"].as_str().unwrap();
    let first: String = instructions.chars().take(512).collect();
    for told in [
        "public at once",
        "no secrets",
        "shown only then",
        "give it to the user",
        "never publish it",
        "written by strangers",
    ] {
        assert!(first.contains(told), "{told}: {first}");
    }
    assert!(instructions.contains("retry_after"));
}

#[tokio::test]
async fn each_message_of_a_client_may_go_to_another_replica() {
    let one = Setup::unlimited().start();
    let replicas = [one.clone(), Setup::unlimited().over_the_store_of(&one).start()];
    for revision in REVISIONS {
        let [one, other] = [0, 1].map(|number: usize| Client::new(&replicas[number], revision));
        if revision != MODERN {
            one.result("initialize", opening(revision)).await;
            let mut initialized = one.message("notifications/initialized", json!({}));
            initialized.as_object_mut().unwrap().remove("id");
            let answer = other.app.send(other.carrying(&initialized)).await;
            assert!(!answer.expect_status(202).headers.contains_key("mcp-session-id"), "{answer:?}");
        }
        let (slug, key) = one.published().await;
        let own = json!({"slug": slug, "edit_key": key, "content": "second"});
        assert_eq!(other.call("update_page", own.clone()).await.done()["content"], "second");
        assert_eq!(one.call("get_page", json!({"slug": slug})).await.done()["content"], "second");
        other.call("delete_page", json!({"slug": slug, "edit_key": key})).await.done();
        one.call("update_page", own).await.expect_error(410, "gone");
    }
}
