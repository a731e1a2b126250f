//! The documents that describe the service to programs (spec §4.7; contract, decision 26), made from
//! [`crate::http::metadata`].

pub(crate) mod skill;

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::routing::{MethodRouter, get};
use axum::{Router, body::Bytes};
use http::HeaderValue;
use http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, CACHE_CONTROL, CONTENT_TYPE, LINK};
use serde_json::{Value, json};

use crate::http::metadata::{self, path};
use crate::http::site::{MARKDOWN_TYPE, PLAIN_TEXT};
use crate::http::{document::Document, error::Code, etag::REVALIDATE, request::MAX_BODY_BYTES, state::SiteSettings};
use crate::settings::Contact;
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::rate_limiter::{LimitKind, Quotas};
use handbill_pages::service::oauth;
use handbill_pages::values::{content, origin::Origin, quota::Quota, timestamp::UnixMillis, title};

const JSON: &str = "application/json";
const SERVER_CARD: &str = "application/mcp-server-card+json";
const AI_CATALOG: &str = "application/ai-catalog+json";
/// RFC 9727 §4.
const API_CATALOG: &str = r#"application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727""#;

pub(super) fn routes<S: Clone + Send + Sync + 'static>(
    base_url: &Origin,
    quotas: Quotas,
    site: &SiteSettings,
    clock: &SharedClock,
) -> Router<S> {
    let mcp = site.mcp_url(base_url);
    let card = bytes(&server_card(base_url, &mcp));
    let skill = skill::markdown(base_url, &mcp);
    let index = bytes(&skill_index(&skill));
    let api_catalog_link = format!(r#"<{base_url}{}>; rel="api-catalog""#, path::API_CATALOG);
    let routes = Router::new();
    let routes = match &site.abuse_contact {
        Some(contact) => routes.route(path::SECURITY, security_txt(contact, base_url, Arc::clone(clock))),
        None => routes,
    };
    routes
        .route(path::AUTHORIZATION_SERVER, json_route(&authorization_server(base_url)))
        // Not under `…/mcp`, where it would say that the MCP server wants a token.
        .route(path::PROTECTED_RESOURCE, json_route(&protected_resource(base_url)))
        .route(path::AGENT_CARD, json_route(&agent_card(base_url, &mcp)))
        .route(path::LLMS, Document::new(PLAIN_TEXT, llms(base_url, quotas, site)).route())
        .route(path::SERVER_CARD, route_for_browsers(JSON, card.clone()))
        .route(path::SERVER_CARD_BESIDE, route_for_browsers(SERVER_CARD, card))
        .route(path::AI_CATALOG, route_for_browsers(AI_CATALOG, bytes(&ai_catalog(base_url, &mcp))))
        .route(path::SKILL_INDEX, route_for_browsers(JSON, index))
        .route(path::SKILL, route_for_browsers(MARKDOWN_TYPE, skill.clone()))
        .route(path::SKILL_SHORT, route_for_browsers(MARKDOWN_TYPE, skill))
        .route(
            path::API_CATALOG,
            Document::new(API_CATALOG, bytes(&api_catalog(base_url)))
                .with(LINK, HeaderValue::try_from(api_catalog_link).expect("an origin is ASCII"))
                .route(),
        )
}

/// The text of `/llms.txt`, for who asks for the home page as Markdown.
pub(super) fn home_markdown(base_url: &Origin, quotas: Quotas, site: &SiteSettings) -> Document {
    Document::new(MARKDOWN_TYPE, llms(base_url, quotas, site))
}

fn json_route<S: Clone + Send + Sync + 'static>(document: &Value) -> MethodRouter<S> {
    Document::new(JSON, bytes(document)).route()
}

/// SEP-2127 requires the two header fields on every answer with a server card.
fn route_for_browsers<S: Clone + Send + Sync + 'static>(
    media_type: &'static str,
    document: impl Into<Bytes>,
) -> MethodRouter<S> {
    Document::new(media_type, document)
        .with(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"))
        .with(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type, If-None-Match"))
        .route()
}

fn bytes(document: &Value) -> Vec<u8> {
    let mut json = serde_json::to_vec_pretty(document).expect("the document is made of strings");
    json.push(b'\n');
    json
}

/// RFC 8414.
fn authorization_server(base_url: &Origin) -> Value {
    json!({
        "issuer": base_url.as_str(),
        "token_endpoint": format!("{base_url}{}", path::TOKEN),
        "token_endpoint_auth_methods_supported": metadata::TOKEN_AUTH_METHODS,
        "grant_types_supported": [oauth::GRANT_TYPE],
        // There is no authorization endpoint, and so no response type. But §2 requires the field, §3.2 forbids an empty
        // list (erratum 7793), and validators such as Authlib's check both.
        "response_types_supported": ["none"],
        "scopes_supported": scopes(),
        "protected_resources": [base_url.as_str()],
        "service_documentation": format!("{base_url}{}", path::LLMS),
    })
}

/// RFC 9728.
fn protected_resource(base_url: &Origin) -> Value {
    json!({
        "resource": base_url.as_str(),
        "authorization_servers": [base_url.as_str()],
        "scopes_supported": scopes(),
        "bearer_methods_supported": ["header"],
        "resource_name": metadata::TITLE,
        "resource_documentation": format!("{base_url}{}", path::LLMS),
    })
}

/// SEP-2127.
fn server_card(base_url: &Origin, mcp: &str) -> Value {
    let identity = metadata::identity(base_url);
    let mut card = json!(identity);
    card["$schema"] = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json".into();
    card["remotes"] = json!([{
        "type": "streamable-http",
        "url": mcp,
        "supportedProtocolVersions": metadata::MCP_PROTOCOL_VERSIONS,
    }]);
    // Members of the older convention (SEP-1649), which scanners still read.
    card["serverInfo"] = json!({"name": identity.name, "title": identity.title, "version": identity.version});
    card["protocolVersion"] = newest_mcp_version().into();
    card["transport"] = json!({"type": "streamable-http", "endpoint": mcp});
    card["capabilities"] = json!({"tools": {}, "resources": {}});
    card
}

/// Leads a client that knows only the host to the server card.
fn ai_catalog(base_url: &Origin, mcp: &str) -> Value {
    json!({
        "specVersion": "1.0",
        "entries": [{
            "identifier": format!("urn:air:{}:mcp:handbill", base_url.host_text()),
            "type": SERVER_CARD,
            "url": format!("{mcp}{}", path::SERVER_CARD_SUFFIX),
        }],
    })
}

/// RFC 9727, as a set of links (RFC 9264).
fn api_catalog(base_url: &Origin) -> Value {
    json!({"linkset": [{
        "anchor": format!("{base_url}/api/pages"),
        "service-desc": [{"href": format!("{base_url}{}", path::OPENAPI), "type": JSON}],
        "service-doc": [{"href": format!("{base_url}{}", path::LLMS), "type": "text/plain"}],
    }]})
}

/// Agent Skills Discovery 0.2.0. `files` is for programs that read the version before, which has no digest.
fn skill_index(skill: &str) -> Value {
    json!({
        "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
        "skills": [{
            "name": skill::NAME,
            "type": "skill-md",
            "description": skill::DESCRIPTION,
            "url": path::SKILL,
            "digest": skill::digest(skill),
            "files": ["SKILL.md"],
        }],
    })
}

/// Handbill does not speak A2A: the interface in the card is the MCP server, with a binding that no A2A client uses.
fn agent_card(base_url: &Origin, mcp: &str) -> Value {
    let binding = format!(
        "https://modelcontextprotocol.io/specification/{}/basic/transports/streamable-http",
        newest_mcp_version()
    );
    json!({
        "name": metadata::TITLE,
        "version": metadata::INTERFACE_VERSION,
        "description": format!(
            "{} Not a conversational agent: it is reached over MCP (Streamable HTTP) and REST and implements no A2A message operations.",
            metadata::SUMMARY,
        ),
        "supportedInterfaces": [{
            "url": mcp,
            "protocolBinding": binding,
            "protocolVersion": metadata::A2A_VERSION,
        }],
        "provider": {"organization": metadata::TITLE, "url": base_url.as_str()},
        "iconUrl": format!("{base_url}{}", path::ICON),
        "documentationUrl": format!("{base_url}{}", path::LLMS),
        "capabilities": {"streaming": false, "pushNotifications": false, "extendedAgentCard": false},
        "defaultInputModes": [JSON],
        "defaultOutputModes": [JSON],
        "skills": metadata::OPERATIONS.map(|operation| json!({
            "id": operation.tool,
            "name": operation.title,
            "description": operation.summary,
            "tags": operation.tags,
        })),
    })
}

fn scopes() -> [&'static str; 2] {
    oauth::SCOPES.map(|(name, _)| name)
}

fn newest_mcp_version() -> &'static str {
    let [.., newest] = metadata::MCP_PROTOCOL_VERSIONS;
    newest
}

#[derive(Template)]
#[template(path = "llms.txt")]
struct LlmsTemplate<'a> {
    base_url: &'a Origin,
    mcp_url: &'a str,
    quotas: [(&'static str, Option<Quota>); 4],
    site: &'a SiteSettings,
}

fn window(quota: &Quota) -> humantime::FormattedDuration {
    humantime::format_duration(quota.window)
}

fn llms(base_url: &Origin, quotas: Quotas, site: &SiteSettings) -> String {
    let quotas = [
        ("Creates", quotas.create),
        ("Edits and deletes", quotas.edit),
        ("Tokens", quotas.token),
        ("Previews", quotas.of(LimitKind::Preview)),
    ];
    LlmsTemplate { base_url, mcp_url: &site.mcp_url(base_url), quotas, site }
        .render()
        .expect("writing to a string does not fail")
}

/// RFC 9116 recommends less than a year. Each answer has the running process's contact.
const VALIDITY: Duration = Duration::from_hours(30 * 24);

/// The document expires 30 days after each request.
fn security_txt<S: Clone + Send + Sync + 'static>(
    contact: &Contact,
    base_url: &Origin,
    clock: SharedClock,
) -> MethodRouter<S> {
    let mut fixed = format!("Contact: {contact}\n");
    let canonical = format!("{base_url}{}", path::SECURITY);
    if canonical.starts_with("https://") {
        fixed = format!("{fixed}Canonical: {canonical}\n");
    }
    get(move || {
        let validity = i64::try_from(VALIDITY.as_millis()).unwrap_or(i64::MAX);
        let expires = UnixMillis::new(clock.now().get().saturating_add(validity));
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(PLAIN_TEXT)), (CACHE_CONTROL, REVALIDATE)];
        std::future::ready((headers, format!("{fixed}Expires: {expires}\n")))
    })
}
