//! How the documents by which others find the service are served (spec §4.7), and what leads to them.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::in_process::app::{BASE_URL, Setup, TestApp};
use crate::in_process::exchange::{Answer, Request};
use crate::mcp::client::{Client, MODERN};
use crate::mcp::hosted::start as hosted;

pub(crate) const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
pub(crate) const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
pub(crate) const WELL_KNOWN_CARD: &str = "/.well-known/mcp/server-card.json";
pub(crate) const CARD: &str = "/mcp/server-card";
pub(crate) const AGENT_CARD: &str = "/.well-known/agent-card.json";
pub(crate) const LLMS: &str = "/llms.txt";
const AI_CATALOG: &str = "/.well-known/ai-catalog.json";
const API_CATALOG: &str = "/.well-known/api-catalog";
const SKILL_INDEX: &str = "/.well-known/agent-skills/index.json";
const SKILL: &str = "/.well-known/agent-skills/handbill/SKILL.md";

/// Every document, with its media type where the client asks for none.
pub(crate) const DOCUMENTS: [(&str, &str); 12] = [
    (AUTHORIZATION_SERVER, "application/json"),
    (PROTECTED_RESOURCE, "application/json"),
    (WELL_KNOWN_CARD, "application/json"),
    (CARD, "application/mcp-server-card+json"),
    (AGENT_CARD, "application/json"),
    ("/openapi.json", "application/json"),
    (LLMS, "text/plain; charset=utf-8"),
    (AI_CATALOG, "application/ai-catalog+json"),
    (API_CATALOG, r#"application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727""#),
    (SKILL_INDEX, "application/json"),
    (SKILL, "text/markdown; charset=utf-8"),
    ("/skill.md", "text/markdown; charset=utf-8"),
];

/// A server card, and what leads to one or to the skill: any page of the web may read it.
const FOR_BROWSERS: [&str; 6] = [WELL_KNOWN_CARD, CARD, AI_CATALOG, SKILL_INDEX, SKILL, "/skill.md"];

pub(crate) async fn json(path: &str) -> Value {
    let answer = TestApp::new().get(path).await;
    answer.expect_status(200).json()
}

#[tokio::test]
async fn every_document_has_its_type_and_may_be_kept_for_an_hour() {
    let app = TestApp::new();
    for (path, content_type) in DOCUMENTS {
        let answer = app.get(path).await;
        assert_eq!(answer.expect_status(200).header("content-type"), content_type, "{path}");
        assert_eq!(answer.header("cache-control"), "public, max-age=3600", "{path}");
        assert!(answer.members("access-control-expose-headers").contains(&"etag".to_owned()), "{path}");
        if content_type.ends_with("json") {
            assert!(answer.json().is_object(), "{path}");
        }
    }
}

#[tokio::test]
async fn any_page_on_the_web_may_read_a_card() {
    let app = TestApp::new();
    for path in FOR_BROWSERS {
        let answer = app.send(Request::get(path).header("origin", "https://elsewhere.example")).await;
        assert_eq!(answer.expect_status(200).members("access-control-allow-methods"), ["get"], "{path}");
        assert_eq!(answer.members("access-control-allow-headers"), ["content-type", "if-none-match"], "{path}");
        let preflight = Request::new("OPTIONS", path)
            .header("origin", "https://elsewhere.example")
            .header("access-control-request-method", "GET")
            .header("access-control-request-headers", "if-none-match");
        let answer = app.send(preflight).await;
        assert!(answer.members("access-control-allow-methods").contains(&"get".to_owned()), "{path}");
        assert!(answer.members("access-control-allow-headers").contains(&"if-none-match".to_owned()), "{path}");
    }
}

/// The targets of the links with this relation.
pub(crate) fn linked(answer: &Answer, rel: &str) -> Vec<String> {
    let fields = answer.headers.get_all("link").iter().map(|line| line.to_str().unwrap());
    let links = fields.flat_map(|line| line.trim_start_matches('<').split(", <"));
    let of_rel = links.filter(|link| link.contains(&format!("rel=\"{rel}\"")));
    of_rel.map(|link| link.split('>').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_home_page_and_the_api_lead_to_the_openapi_document() {
    let (app, page) = TestApp::with_page().await;
    let openapi = format!("{BASE_URL}/openapi.json");
    for (status, request) in [
        (200, Request::get("/")),
        (200, Request::get("/help")),
        (200, Request::get(format!("/api/pages/{}", page.slug))),
        (201, Request::create(r#"{"title": "T", "content": "c"}"#)),
        (400, Request::create("nonsense")),
        (401, Request::update(&page.slug, "{}")),
        (405, Request::get("/api/pages")),
        (404, Request::get("/api/pages/x")),
        (404, Request::get("/no/such/route")),
        (400, Request::token("")),
    ] {
        let answer = app.send(request).await;
        assert_eq!(linked(answer.expect_status(status), "service-desc"), [openapi.as_str()], "{answer:?}");
    }
    let home = app.get("/").await;
    assert_eq!(linked(&home, "service-doc"), [format!("{BASE_URL}/llms.txt")]);
    assert_eq!(linked(&home, "api-catalog"), [API_CATALOG]);
}

#[tokio::test]
async fn the_home_page_as_markdown_is_llms_txt() {
    let app = TestApp::new();
    let [html, text] = [app.get("/").await, app.get(LLMS).await];
    for address in DOCUMENTS
        .map(|(path, _)| path)
        .into_iter()
        .filter(|path| path.starts_with("/.well-known/") && !path.contains("skill"))
    {
        assert!(text.text().contains(&format!("({BASE_URL}{address})")), "{address}");
    }
    for accept in ["text/markdown", "text/markdown, text/html, */*", "text/html;q=0.5,text/markdown;q=0.6"] {
        let answer = app.send(Request::get("/").header("accept", accept)).await;
        assert_eq!(answer.header("content-type"), "text/markdown; charset=utf-8", "{accept}");
        assert_eq!(answer.body, text.body, "{accept}");
        assert_ne!(answer.header("etag"), html.header("etag"));
        assert_eq!(linked(&answer, "api-catalog"), [API_CATALOG]);
        // A shared cache that ignores `Vary` must not give it to a browser.
        assert_eq!((answer.header("cache-control"), answer.header("vary")), ("private, no-cache", html.header("vary")));
    }
    for accept in ["text/html", "*/*", "text/markdown;q=0", "text/html, text/markdown;q=0.9", "unknown/type", ","] {
        let answer = app.send(Request::get("/").header("accept", accept)).await;
        assert_eq!(answer.body, html.body, "{accept}");
        assert!(answer.members("vary").contains(&"accept".to_owned()), "{answer:?}");
    }
}

/// As SEP-2127 describes it: the catalog, its entry of the right type, the card, the connection.
#[tokio::test]
async fn a_client_that_knows_only_the_origin_finds_the_tools() {
    for (app, tools) in [(TestApp::new(), BASE_URL), (hosted(), "https://mcp.pages.example")] {
        let catalog = app.get(AI_CATALOG).await.json();
        assert_eq!(catalog["specVersion"], "1.0");
        let [entry] = catalog["entries"].as_array().unwrap().as_slice() else { panic!("{catalog}") };
        assert_eq!(entry["identifier"], "urn:air:pages.example:mcp:handbill");
        assert_eq!(entry["type"], "application/mcp-server-card+json");
        let card = Request::get(entry["url"].as_str().unwrap().strip_prefix(tools).unwrap());
        let card = app.send(card.header("accept", "application/mcp-server-card+json")).await;
        assert_eq!(card.header("content-type"), "application/mcp-server-card+json");
        assert_eq!(card.json()["remotes"][0]["url"], format!("{tools}/mcp"));
    }
}

#[tokio::test]
async fn the_api_catalog_leads_to_the_documents_of_the_api() {
    let app = TestApp::new();
    for method in ["GET", "HEAD"] {
        let answer = app.send(Request::new(method, API_CATALOG)).await;
        assert_eq!(linked(&answer, "api-catalog"), [format!("{BASE_URL}{API_CATALOG}")], "{method}");
    }
    let catalog = app.get(API_CATALOG).await.json();
    for (relation, path) in [("service-desc", "/openapi.json"), ("service-doc", LLMS)] {
        let link = &catalog["linkset"][0][relation][0];
        assert_eq!(link["href"], format!("{BASE_URL}{path}"));
        assert!(app.get(path).await.header("content-type").starts_with(link["type"].as_str().unwrap()), "{link}");
    }
}

#[tokio::test]
async fn the_skill_names_this_server_and_has_the_same_bytes_everywhere() {
    for (app, tools) in [(TestApp::new(), BASE_URL), (hosted(), "https://mcp.pages.example")] {
        let index = app.get(SKILL_INDEX).await.json();
        assert_eq!(index["$schema"], "https://schemas.agentskills.io/discovery/0.2.0/schema.json");
        let [entry] = index["skills"].as_array().unwrap().as_slice() else { panic!("{index}") };
        assert_eq!((&entry["name"], &entry["type"]), (&json!("handbill"), &json!("skill-md")));
        let skill = app.get(entry["url"].as_str().unwrap()).await;
        assert_eq!(skill.body, app.get("/skill.md").await.body);
        let digest =
            Sha256::digest(&skill.body).iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"));
        assert_eq!(entry["digest"], digest);
        let text = skill.text();
        assert!(text.starts_with(&format!(
            "---\nname: handbill\ndescription: {}\n---\n",
            entry["description"].as_str().unwrap()
        )));
        for told in [format!("{tools}/mcp."), format!("This server is {BASE_URL}.")] {
            assert!(text.contains(&told), "{text}");
        }

        let client = Client::new(&app, MODERN);
        let listed = client.result("skills/list", json!({})).await["skills"].clone();
        let uri = &listed[0]["uri"];
        assert_eq!(listed[0]["frontmatter"], json!({"name": "handbill", "description": entry["description"]}));
        assert_eq!(listed[0]["resources"], json!([{"uri": uri, "digest": digest, "size": text.len()}]));
        assert_eq!(client.result("skills/get", json!({"uri": uri})).await["skill"], listed[0]);
        let read = client.result("resources/read", json!({"uri": uri})).await["contents"].clone();
        assert_eq!(read, json!([{"uri": uri, "mimeType": "text/markdown", "text": text}]));
        assert_eq!(client.result("resources/list", json!({})).await["resources"][0]["uri"], *uri);
    }
}

#[tokio::test]
async fn a_skill_that_does_not_exist_is_refused_without_its_name() {
    let app = TestApp::new();
    for path in ["/.well-known/agent-skills/other/SKILL.md", "/.well-known/agent-skills/handbill", "/skills.md"] {
        app.get(path).await.expect_error(404, "not_found");
    }
    let key = app.published().await.key;
    for client in Client::each(&app) {
        let not_found = if client.is_modern() { -32602 } else { -32002 };
        for uri in
            ["skill://other/SKILL.md".to_owned(), "handbill".to_owned(), format!("skill://{key}/SKILL.md"), key.clone()]
        {
            client.ask("skills/get", json!({"uri": uri})).await.refuses(200, -32602);
            client.ask("resources/read", json!({"uri": uri})).await.refuses(200, not_found);
        }
        client.ask("skills/list", json!({"cursor": "x"})).await.refuses(200, -32602);
    }
}

#[tokio::test]
async fn a_page_leads_to_its_markdown() {
    let (app, page) = TestApp::with_page().await;
    let answer = app.get(&format!("/{}", page.slug)).await;
    assert_eq!(linked(&answer, "alternate"), [format!("{BASE_URL}/{}.md", page.slug)]);
    assert!(linked(&answer, "service-desc").is_empty(), "a page is no interface: {answer:?}");
}

#[tokio::test]
async fn a_tag_changes_with_the_base_url() {
    let (one, other) = (TestApp::new(), Setup::new().base_url("https://other.example").start());
    for (path, _) in DOCUMENTS {
        assert_ne!(one.get(path).await.header("etag"), other.get(path).await.header("etag"), "{path}");
        assert_eq!(one.get(path).await.header("etag"), TestApp::new().get(path).await.header("etag"), "{path}");
    }
}

#[tokio::test]
async fn the_server_card_says_where_and_how_mcp_is_spoken() {
    let card = json(CARD).await;
    assert_eq!(json(WELL_KNOWN_CARD).await, card);
    let remote = &card["remotes"][0];
    assert_eq!(remote["type"], "streamable-http");
    assert_eq!(remote["url"], format!("{BASE_URL}/mcp"));
    let versions = json!(["2025-06-18", "2025-11-25", "2026-07-28"]);
    assert_eq!(remote["supportedProtocolVersions"], versions);
    // The older convention, which scanners look for.
    assert_eq!(card["serverInfo"], json!({"name": card["name"], "title": card["title"], "version": card["version"]}));
    assert_eq!(card["transport"], json!({"type": remote["type"], "endpoint": remote["url"]}));
    assert_eq!(card["protocolVersion"], versions[2]);
    assert_eq!(card["capabilities"], json!({"tools": {}, "resources": {}}));
}

#[tokio::test]
async fn the_authorization_server_has_the_one_grant() {
    let expected = json!({
        "issuer": BASE_URL,
        "token_endpoint": format!("{BASE_URL}/oauth/token"),
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": ["none"],
        "scopes_supported": ["post:edit", "post:delete"],
        "protected_resources": [BASE_URL],
        "service_documentation": format!("{BASE_URL}/llms.txt"),
    });
    assert_eq!(json(AUTHORIZATION_SERVER).await, expected);
}

#[tokio::test]
async fn the_protected_resource_takes_keys_in_the_header_only() {
    let expected = json!({
        "resource": BASE_URL,
        "authorization_servers": [BASE_URL],
        "scopes_supported": ["post:edit", "post:delete"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Handbill",
        "resource_documentation": format!("{BASE_URL}/llms.txt"),
    });
    assert_eq!(json(PROTECTED_RESOURCE).await, expected);
}

#[tokio::test]
async fn a_well_known_document_that_does_not_exist_is_404_in_json() {
    let app = TestApp::new();
    for path in [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
        "/.well-known/mcp",
        "/oauth/register",
        "/mcp/other",
    ] {
        app.get(path).await.expect_error(404, "not_found");
        app.send(Request::get(path).header("accept", "text/html,*/*;q=0.8")).await.expect_error(404, "not_found");
    }
}

#[tokio::test]
async fn the_agent_card_names_no_binding_of_a2a() {
    let card = json(AGENT_CARD).await;
    assert!(card["description"].as_str().unwrap().contains("Not a conversational agent"), "{card}");
    for interface in card["supportedInterfaces"].as_array().unwrap() {
        let binding = interface["protocolBinding"].as_str().unwrap();
        assert!(binding.starts_with("https://modelcontextprotocol.io/"), "{binding}");
    }
    for capability in ["streaming", "pushNotifications", "extendedAgentCard"] {
        assert_eq!(card["capabilities"][capability], false);
    }
}
