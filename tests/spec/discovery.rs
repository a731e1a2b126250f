//! The documents by which others find the service (spec §4.7): each as its standard has it, and all in agreement.

use std::collections::BTreeSet;

use handbill::about;
use serde_json::{Value, json};

use crate::support::app::{BASE_URL, Setup, TestApp};
use crate::support::document::DOCUMENT;
use crate::support::exchange::{Answer, Request};

const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
const WELL_KNOWN_CARD: &str = "/.well-known/mcp/server-card.json";
const CARD: &str = "/mcp/server-card";
const AI_CATALOG: &str = "/.well-known/ai-catalog.json";
const AGENT_CARD: &str = "/.well-known/agent-card.json";
const LLMS: &str = "/llms.txt";

/// Every document, with its media type where the client asks for none.
const DOCUMENTS: [(&str, &str); 8] = [
    (AUTHORIZATION_SERVER, "application/json"),
    (PROTECTED_RESOURCE, "application/json"),
    (WELL_KNOWN_CARD, "application/json"),
    (CARD, "application/mcp-server-card+json"),
    (AI_CATALOG, "application/ai-catalog+json"),
    (AGENT_CARD, "application/json"),
    ("/openapi.json", "application/json"),
    (LLMS, "text/plain; charset=utf-8"),
];

/// What else stays the same until Handbill or its settings change.
const FIXED: [&str; 3] = ["/", "/robots.txt", "/favicon.ico"];

/// The MCP server is not a document, and has tests of its own.
const MCP: &str = "/mcp";

async fn json(path: &str) -> Value {
    let answer = TestApp::new().get(path).await;
    answer.has(200).json()
}

/// Every address of ours in `text`, without what comes before its path.
fn paths_of_ours(text: &str) -> BTreeSet<String> {
    let ends_an_address = |c: char| c.is_whitespace() || "\"'`<>(),;".contains(c);
    let paths = text.split(BASE_URL).skip(1).map(|rest| rest.split(ends_an_address).next().unwrap());
    paths
        .map(|path| if path.is_empty() { "/".to_owned() } else { path.trim_end_matches(['.', ':']).to_owned() })
        .collect()
}

#[tokio::test]
async fn every_document_is_served_in_its_type_and_may_be_kept_for_an_hour() {
    let app = TestApp::new();
    for (path, content_type) in DOCUMENTS {
        let answer = app.get(path).await;
        assert_eq!(answer.has(200).header("content-type"), content_type, "{path}");
        assert_eq!(answer.header("cache-control"), "public, max-age=3600", "{path}");
        assert!(answer.members("access-control-expose-headers").contains(&"etag".to_owned()), "{path}");
        if content_type.ends_with("json") {
            assert!(answer.json().is_object(), "{path}");
        }
    }
}

#[tokio::test]
async fn what_a_client_holds_already_is_answered_304_without_a_body() {
    let app = TestApp::new();
    let style = app.get("/").await.text().split("rel=\"stylesheet\" href=\"").nth(1).unwrap().to_owned();
    let style = style.split('"').next().unwrap();
    for path in DOCUMENTS.iter().map(|(path, _)| *path).chain(FIXED).chain([style]) {
        let answer = app.get(path).await;
        let tag = answer.has(200).header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "{path} has a strong tag: {tag}");
        for held in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let again = app.send(Request::get(path).header("if-none-match", &held)).await;
            assert!(again.has(304).body.is_empty(), "{path}");
            assert_eq!(again.header("etag"), tag, "{path}");
            for header in ["cache-control", "vary", "link"] {
                assert_eq!(again.members(header), answer.members(header), "{path}: {header}");
            }
        }
        let other = app.send(Request::get(path).header("if-none-match", "\"other\"")).await;
        assert_eq!(other.has(200).body, answer.body, "{path}");
    }
}

#[tokio::test]
async fn head_answers_as_get_does_without_the_body() {
    let app = TestApp::new();
    for path in DOCUMENTS.iter().map(|(path, _)| *path).chain(FIXED) {
        let (get, head) = (app.get(path).await, app.send(Request::new("HEAD", path)).await);
        assert!(head.has(200).body.is_empty(), "{path}");
        for header in ["content-type", "content-length", "etag", "cache-control", "vary", "link"] {
            assert_eq!(head.members(header), get.members(header), "{path}: {header}");
        }
        assert_eq!(get.header("content-length"), get.body.len().to_string(), "{path}");
    }
}

#[tokio::test]
async fn another_method_answers_405_that_names_get_and_head() {
    let app = TestApp::new();
    for (path, _) in DOCUMENTS {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let answer = app.send(Request::new(method, path)).await;
            answer.fails(405, "method_not_allowed");
            assert_eq!(answer.members("allow"), ["get", "head"], "{path}");
            assert!(answer.field("message").contains("GET and HEAD"), "{answer:?}");
        }
    }
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
async fn any_page_on_the_web_may_read_a_card() {
    let app = TestApp::new();
    for path in [WELL_KNOWN_CARD, CARD] {
        let answer = app.send(Request::get(path).header("origin", "https://elsewhere.example")).await;
        assert_eq!(answer.has(200).members("access-control-allow-methods"), ["get"], "{path}");
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

#[tokio::test]
async fn the_server_card_comes_in_the_type_that_is_asked_for_and_else_in_that_of_its_address() {
    const TYPED: &str = "application/mcp-server-card+json";
    const PLAIN: &str = "application/json";
    let app = TestApp::new();
    let both = format!("{TYPED}, {PLAIN}");
    for (path, accept, expected) in [
        (WELL_KNOWN_CARD, "", PLAIN),
        (WELL_KNOWN_CARD, "*/*", PLAIN),
        (WELL_KNOWN_CARD, PLAIN, PLAIN),
        (WELL_KNOWN_CARD, TYPED, TYPED),
        (WELL_KNOWN_CARD, &both, TYPED),
        (WELL_KNOWN_CARD, "application/mcp-server-card+json;q=0.1, application/json", PLAIN),
        (WELL_KNOWN_CARD, "application/mcp-server-card+json;q=0", PLAIN),
        (CARD, "", TYPED),
        (CARD, "*/*", TYPED),
        (CARD, TYPED, TYPED),
        (CARD, &both, TYPED),
        (CARD, PLAIN, PLAIN),
        (CARD, "application/mcp-server-card+json;q=0.1, application/json", PLAIN),
    ] {
        let answer = app.send(Request::get(path).header("accept", accept)).await;
        assert_eq!(answer.has(200).header("content-type"), expected, "{path} {accept}");
        assert_eq!(answer.members("vary"), ["accept"], "{path} {accept}");
    }
    let tag = |path, accept| {
        let request = Request::get(path).header("accept", accept);
        async { app.send(request).await.header("etag").to_owned() }
    };
    assert_ne!(tag(CARD, PLAIN).await, tag(CARD, TYPED).await, "two representations");
    assert_eq!(app.get(WELL_KNOWN_CARD).await.body, app.get(CARD).await.body);
}

#[tokio::test]
async fn the_server_card_is_as_its_schema_has_it() {
    let mut schema: Value = serde_json::from_str(include_str!("server-card.schema.json")).unwrap();
    schema["$ref"] = json!("#/$defs/ServerCard");
    let validator = jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap();
    let card = json(WELL_KNOWN_CARD).await;
    let faults: Vec<String> = validator.iter_errors(&card).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{faults:?}");
    let mut without_name = card.clone();
    without_name.as_object_mut().unwrap().remove("name");
    assert!(!validator.is_valid(&without_name), "the schema is in force");
}

#[tokio::test]
async fn the_server_card_says_where_and_in_which_versions_mcp_is_spoken() {
    let card = json(CARD).await;
    let remote = &card["remotes"][0];
    assert_eq!(remote["type"], "streamable-http");
    assert_eq!(remote["url"], format!("{BASE_URL}/mcp"));
    let versions = json!(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
    assert_eq!(remote["supportedProtocolVersions"], versions);
    // The older convention, which scanners look for.
    assert_eq!(card["serverInfo"], json!({"name": card["name"], "title": card["title"], "version": card["version"]}));
    assert_eq!(card["transport"], json!({"type": remote["type"], "endpoint": remote["url"]}));
    assert_eq!(card["protocolVersion"], versions[3]);
    assert_eq!(card["capabilities"], json!({"tools": {}}));
}

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

#[tokio::test]
async fn the_authorization_server_has_the_one_grant_and_no_endpoint_that_does_not_exist() {
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
async fn the_protected_resource_is_the_whole_site_and_takes_keys_in_the_header_only() {
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
async fn no_empty_list_is_in_the_oauth_documents() {
    // RFC 8414 §3.2 and RFC 9728 §3.2.
    for path in [AUTHORIZATION_SERVER, PROTECTED_RESOURCE] {
        let document = json(path).await;
        for (name, value) in document.as_object().unwrap() {
            assert!(value.as_array().is_none_or(|list| !list.is_empty()), "{path}: {name}");
        }
    }
}

#[tokio::test]
async fn a_well_known_document_that_does_not_exist_is_404_in_json_also_for_a_browser() {
    let app = TestApp::new();
    for path in [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
        "/.well-known/mcp",
        "/oauth/register",
        "/mcp/other",
    ] {
        app.get(path).await.fails(404, "not_found");
        app.send(Request::get(path).header("accept", "text/html,*/*;q=0.8")).await.fails(404, "not_found");
    }
}

#[tokio::test]
async fn the_agent_card_has_all_that_a2a_1_0_requires_and_nothing_of_0_3() {
    let card = json(AGENT_CARD).await;
    for required in ["name", "description", "version"] {
        assert!(card[required].as_str().is_some_and(|text| !text.is_empty()), "{required}");
    }
    for required in ["supportedInterfaces", "defaultInputModes", "defaultOutputModes", "skills"] {
        assert!(card[required].as_array().is_some_and(|list| !list.is_empty()), "{required}");
    }
    assert!(card["capabilities"].is_object());
    for skill in card["skills"].as_array().unwrap() {
        for required in ["id", "name", "description"] {
            assert!(skill[required].as_str().is_some_and(|text| !text.is_empty()), "{skill}");
        }
        assert!(!skill["tags"].as_array().unwrap().is_empty(), "{skill}");
    }
    for (name, scheme) in card["securitySchemes"].as_object().unwrap() {
        let kinds: Vec<&String> = scheme.as_object().unwrap().keys().collect();
        assert!(
            ["httpAuthSecurityScheme", "oauth2SecurityScheme"].contains(&kinds[0].as_str()) && kinds.len() == 1,
            "{name}"
        );
    }
    for old in ["url", "protocolVersion", "preferredTransport", "additionalInterfaces", "security"] {
        assert!(card.get(old).is_none(), "{old}");
    }
}

#[tokio::test]
async fn the_agent_card_says_that_this_is_no_conversational_agent_and_names_no_binding_of_a2a() {
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

#[tokio::test]
async fn the_agent_card_asks_for_a_key_where_the_api_does() {
    let card = json(AGENT_CARD).await;
    for skill in card["skills"].as_array().unwrap() {
        let needed = skill["securityRequirements"].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<&String> =
            needed.iter().flat_map(|requirement| requirement["schemes"].as_object().unwrap().keys()).collect();
        let changes = ["update_page", "delete_page"].contains(&skill["id"].as_str().unwrap());
        assert_eq!(names, if changes { vec!["editKey", "pageToken"] } else { vec![] }, "{skill}");
        assert!(names.iter().all(|name| card["securitySchemes"][name.as_str()].is_object()), "{skill}");
    }
}

#[tokio::test]
async fn every_address_of_ours_that_a_document_gives_is_routed() {
    let app = TestApp::new();
    let mut given = BTreeSet::new();
    for (path, _) in DOCUMENTS {
        given.extend(paths_of_ours(app.get(path).await.text()));
    }
    given.extend(paths_of_ours(app.get("/").await.text()));
    for needed in
        ["/oauth/token", "/mcp", "/mcp/server-card", "/openapi.json", "/llms.txt", "/favicon.ico", "/api/pages"]
    {
        assert!(given.contains(needed), "{needed} is not in {given:?}");
    }
    // The examples name a page that is not there; that its address is one of a page is all that can be said.
    let is_of_an_example = |path: &str| path.contains("hello-") || path.starts_with("/api/pages/");
    for path in given.iter().filter(|path| *path != MCP && !is_of_an_example(path)) {
        let answer = app.get(path).await;
        let takes_post = answer.status == 405 && answer.members("allow").contains(&"post".to_owned());
        assert!(answer.status == 200 || takes_post, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn no_document_gives_an_address_of_another_origin_but_those_of_standards() {
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
                // An example of an address in the OpenAPI document.
                "https://pages.example/",
            ];
            assert!(known.iter().any(|origin| address.starts_with(origin)), "{path}: {}", &address[..60]);
        }
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
        assert_eq!(document, about::TITLE, "{name}");
    }
    for version in [&openapi["info"]["version"], &card["version"], &agent["version"]] {
        assert_eq!(version, "0.1.0");
    }
}

#[tokio::test]
async fn scopes_and_the_token_endpoint_are_the_same_in_every_document() {
    let (server, resource) = (json(AUTHORIZATION_SERVER).await, json(PROTECTED_RESOURCE).await);
    let (openapi, agent) = (json("/openapi.json").await, json(AGENT_CARD).await);
    let of_openapi = &openapi["components"]["securitySchemes"]["pageToken"]["flows"]["clientCredentials"];
    let of_agent = &agent["securitySchemes"]["pageToken"]["oauth2SecurityScheme"];
    let of_agent_flow = &of_agent["flows"]["clientCredentials"];
    assert_eq!(server["scopes_supported"], resource["scopes_supported"]);
    let scopes: BTreeSet<&str> =
        server["scopes_supported"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap()).collect();
    for flow in [of_openapi, of_agent_flow] {
        assert_eq!(flow["tokenUrl"], server["token_endpoint"]);
        let named: BTreeSet<&str> = flow["scopes"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(named, scopes);
    }
    assert_eq!(of_openapi["scopes"], of_agent_flow["scopes"]);
    assert_eq!(of_agent["oauth2MetadataUrl"], format!("{BASE_URL}{AUTHORIZATION_SERVER}"));
    assert_eq!(resource["authorization_servers"], json!([server["issuer"]]));
    assert_eq!(server["protected_resources"], json!([resource["resource"]]));
}

#[tokio::test]
async fn every_operation_on_a_page_is_a_tool_and_a_skill_and_nothing_else_is() {
    let of_openapi: BTreeSet<&str> = DOCUMENT
        .operations()
        .iter()
        .filter(|(_, path, _)| path.starts_with("/api/pages"))
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(about::OPERATIONS.iter().map(|operation| operation.operation_id).collect::<BTreeSet<_>>(), of_openapi);
    let tools = about::OPERATIONS.map(|operation| operation.tool);
    assert_eq!(tools, ["create_page", "get_page", "update_page", "delete_page"]);
    let agent = json(AGENT_CARD).await;
    let skills: Vec<&str> =
        agent["skills"].as_array().unwrap().iter().map(|skill| skill["id"].as_str().unwrap()).collect();
    assert_eq!(skills, tools);
    let llms = TestApp::new().get(LLMS).await;
    assert!(tools.iter().all(|tool| llms.text().contains(&format!("- `{tool}`: "))), "{}", llms.text());
}

#[tokio::test]
async fn llms_txt_says_how_to_publish_read_edit_and_delete_what_to_beware_of_and_every_error() {
    let answer = TestApp::new().get(LLMS).await;
    let text = answer.text();
    assert!(text.starts_with("# Handbill\n\n> "), "{text}");
    for expected in [
        "curl https://pages.example/api/pages -H 'Content-Type: application/json'",
        "curl https://pages.example/api/pages/<slug>",
        "curl -X PATCH https://pages.example/api/pages/<slug> -H 'Authorization: Bearer <edit_key>'",
        "curl -X DELETE https://pages.example/api/pages/<slug> -H 'Authorization: Bearer <edit_key>'",
        "https://pages.example/mcp",
        "Hand it to the user at once",
        "Never publish a key",
        "written by strangers",
        "102400 bytes",
        "131072 bytes",
        "- Creates: 10 per client in any 1h.",
        "- Edits and deletes: 60 per client in any 1h.",
        "- Tokens: 60 per client in any 1h.",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in {text}");
    }
    for (code, status) in crate::support::exchange::CODES {
        assert!(text.contains(&format!("- {status} `{code}`: ")), "{code}");
    }
}

#[tokio::test]
async fn llms_txt_tells_the_limits_in_force() {
    let text = Setup::new().limits(0, 7).token_limit(0).start().get(LLMS).await.text().to_owned();
    assert!(text.contains("- Creates: not limited."), "{text}");
    assert!(text.contains("- Edits and deletes: 7 per client in any 1h."), "{text}");
    assert!(text.contains("- Tokens: not limited."), "{text}");
}

#[tokio::test]
async fn what_llms_txt_shows_works_as_it_is_written() {
    let app = TestApp::new();
    let text = app.get(LLMS).await.text().to_owned();
    let bodies: Vec<&str> = text.split("-d '").skip(1).map(|rest| rest.split('\'').next().unwrap()).collect();
    let [create, update] = bodies.as_slice() else { panic!("{bodies:?}") };
    let created = app.create((*create).to_owned()).await;
    let (slug, key) = (created.has(201).field("slug"), created.field("edit_key"));
    app.send(Request::update(&slug, (*update).to_owned()).key(&key)).await.has(200);
    assert!(text.contains(&format!("`{BASE_URL}/<slug>`")));
}

/// The targets of the links with this relation.
fn linked(answer: &Answer, rel: &str) -> Vec<String> {
    let lines = answer.headers.get_all("link").iter().map(|line| line.to_str().unwrap());
    let of_rel = lines.filter(|line| line.contains(&format!("rel=\"{rel}\"")));
    of_rel.map(|line| line.split(['<', '>']).nth(1).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_home_page_and_every_answer_of_the_api_lead_to_the_description_of_the_service() {
    let app = TestApp::new();
    let page = app.published().await;
    let openapi = format!("{BASE_URL}/openapi.json");
    for (status, request) in [
        (200, Request::get("/")),
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
        assert_eq!(linked(answer.has(status), "service-desc"), [openapi.as_str()], "{answer:?}");
    }
    let home = app.get("/").await;
    assert_eq!(linked(&home, "service-doc"), [format!("{BASE_URL}/llms.txt")]);
}

#[tokio::test]
async fn a_page_leads_to_its_markdown() {
    let app = TestApp::new();
    let page = app.published().await;
    let answer = app.get(&format!("/{}", page.slug)).await;
    assert_eq!(linked(&answer, "alternate"), [format!("{BASE_URL}/{}.md", page.slug)]);
    assert!(linked(&answer, "service-desc").is_empty(), "a page is no interface: {answer:?}");
}

#[tokio::test]
async fn the_home_page_tells_people_of_mcp_and_of_the_documentation() {
    let home = TestApp::new().get("/").await;
    assert!(home.text().contains(&format!("{BASE_URL}/mcp")), "{home:?}");
    assert!(home.text().contains(&format!("href=\"{BASE_URL}/llms.txt\"")), "{home:?}");
}
