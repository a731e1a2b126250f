//! The OpenAPI document, made from the same declarations as the routes (spec §4.7).

use serde_json::json;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ClientCredentials, Flow, HttpAuthScheme, HttpBuilder, OAuth2, Scopes, SecurityScheme};
use utoipa::openapi::{ContactBuilder, ContentBuilder, Header, OpenApi, Ref, RefOr, ResponseBuilder, Server};
use utoipa::{Modify, OpenApi as _, PartialSchema};

use crate::api::error::{ApiError, Code};
use crate::api::metadata;
use crate::api::types::{
    CreatePage, CreatedBody, ErrorBody, PageBody, TokenBody, TokenErrorBody, TokenRequest, UpdatePage,
};
use crate::domain::oauth;
use crate::domain::origin::Origin;
use crate::http::api_routes;
use crate::ports::rate_limiter::LimitKind;
use crate::service::{BodyError, BodyReadError, ServiceError};

/// What stands above the operations.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Handbill",
        version = "0.1.0",
        description = "Publishes text posts without accounts. Anyone posts a title and Markdown, gets a public address and an edit key that is shown once, and needs nothing else to read, edit or delete the page later.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "pages", description = "Text posts, each with a key of its own."),
        (name = "tokens", description = "The key once more, for clients that know OAuth alone."),
    ),
    components(schemas(CreatePage, UpdatePage, PageBody, CreatedBody, ErrorBody, TokenRequest, TokenBody, TokenErrorBody)),
    modifiers(&EditKeyScheme),
)]
pub(in crate::http) struct Description;

struct EditKeyScheme;

impl Modify for EditKeyScheme {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The page's edit key, which was shown once when the page was created."))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("editKey", SecurityScheme::Http(scheme));
    }
}

/// The document of a service at `base_url`, as JSON for people and machines.
pub fn document(base_url: &Origin) -> String {
    let mut document = api_routes().into_openapi();
    // Whoever runs the service is found where it is.
    document.info.contact =
        Some(ContactBuilder::new().name(Some(metadata::TITLE)).url(Some(base_url.as_str())).build());
    metadata::TITLE.clone_into(&mut document.info.title);
    metadata::INTERFACE_VERSION.clone_into(&mut document.info.version);
    document.servers = Some(vec![Server::new(base_url.as_str())]);
    document.components.get_or_insert_default().add_security_scheme("pageToken", page_token(base_url));
    for (path, item) in &mut document.paths.paths {
        let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            add_common_answers(operation, path == metadata::path::TOKEN);
            add_common_fields(operation, path == metadata::path::TOKEN);
        }
    }
    let mut json = document.to_pretty_json().expect("the document is made of strings");
    json.push('\n');
    json
}

/// The exchange of a page's slug and key for a token.
fn page_token(base_url: &Origin) -> SecurityScheme {
    let flow = ClientCredentials::new(format!("{base_url}{}", metadata::path::TOKEN), Scopes::from_iter(oauth::SCOPES));
    let description = "The edit key as an OAuth token: `client_id` is the page's slug, `client_secret` its edit key.";
    SecurityScheme::OAuth2(OAuth2::with_description([Flow::ClientCredentials(flow)], description))
}

/// Adds what any operation may answer, whatever it does: these come from the layers and stores around them all.
fn add_common_answers(operation: &mut Operation, is_token: bool) {
    let timeout = ApiError::from(&BodyError::Read(BodyReadError::TimedOut));
    // Where an operation has a 400 of its own, that describes this one too.
    let head =
        ApiError::new(Code::InvalidRequest, "The header `Host` is missing. Send the host that the address names.");
    let has_400 = operation.responses.responses.contains_key("400");
    let common = [
        (!has_400).then_some(("The head must not be served (`invalid_request`).", head)),
        operation.request_body.as_ref().map(|_| ("The body did not arrive in time (`timeout`).", timeout)),
        Some(("Address and headers are too large (`headers_too_large`).", ApiError::headers_too_large())),
        Some(("Handbill is at fault (`internal`).", ApiError::internal())),
        Some(("A store is out of reach (`unavailable`).", ApiError::from(&ServiceError::DeadlinePassed))),
    ];
    for (description, error) in common.into_iter().flatten() {
        let (schema, example) = if is_token {
            ("TokenError", json!(TokenErrorBody::new(error.clone())))
        } else {
            ("Error", json!(ErrorBody::new(error.clone())))
        };
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).example(Some(example)).build();
        let mut response = ResponseBuilder::new().description(description).content("application/json", content);
        if error.retry_after.is_some() {
            let mut header = Header::new(u64::schema());
            header.description = Some("Whole seconds after which trying again makes sense.".to_owned());
            response = response.header("Retry-After", header);
        }
        let status = error.code.status().to_string();
        operation.responses.responses.insert(status, response.build().into());
    }
}

/// Adds the header fields that come with a status whatever the operation, or with any answer of a limited one.
fn add_common_fields(operation: &mut Operation, is_token: bool) {
    let limited = limit_of(operation);
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        let mut add = |name: &str, description: String| {
            let mut header = Header::new(String::schema());
            header.description = Some(description);
            response.headers.insert(name.to_owned(), header.into());
        };
        if is_token {
            add("Cache-Control", "`no-store`: an answer may hold a secret.".to_owned());
            add("Pragma", "`no-cache`, for caches that know nothing newer.".to_owned());
        } else if ["404", "410"].contains(&status.as_str()) {
            add("Cache-Control", "`no-cache`: may be kept, must be revalidated.".to_owned());
        }
        if let Some(limited) = limited.filter(|&limited| is_asked(limited, status)) {
            let name = limited.name();
            add("RateLimit", format!("What is left of the limit, as `\"{name}\";r=<requests>;t=<seconds>`."));
            add("RateLimit-Policy", format!("The limit, as `\"{name}\";q=<requests>;w=<seconds>`."));
        }
    }
}

/// The limit of an operation that has one.
fn limit_of(operation: &Operation) -> Option<LimitKind> {
    match operation.operation_id.as_deref()? {
        "createPage" => Some(LimitKind::Create),
        "updatePage" | "deletePage" => Some(LimitKind::Edit),
        "getToken" => Some(LimitKind::Token),
        _ => None,
    }
}

/// Whether the limiter may have been asked before an answer of `status`. What is wrong with the body of a create is
/// found before, and so is too large a head.
fn is_asked(limited: LimitKind, status: &str) -> bool {
    let before: &[&str] = if limited == LimitKind::Create { &["400", "408", "413", "431"] } else { &["431"] };
    !before.contains(&status)
}

/// The document without its operations, for [`api_routes`] to add them.
pub(in crate::http) fn description() -> OpenApi {
    Description::openapi()
}
