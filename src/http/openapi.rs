//! The OpenAPI document, made from the declarations of the routes and the table of errors (spec §4.7).

use utoipa::PartialSchema;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::security::{ClientCredentials, Flow, HttpAuthScheme, HttpBuilder, OAuth2, Scopes, SecurityScheme};
use utoipa::openapi::{ContactBuilder, ContentBuilder, Header, OpenApi, Ref, RefOr, ResponseBuilder, Server};

use crate::http::metadata::{self, OPERATIONS};
use crate::http::types::{ErrorBody, TokenErrorBody};
use crate::http::{error::Code, request::MAX_BODY_BYTES};
use crate::settings::Contact;
use handbill_pages::ports::rate_limiter::LimitKind;
use handbill_pages::service::oauth;
use handbill_pages::values::origin::Origin;

/// The tag of the operation that exchanges a key for a token.
const TOKENS: &str = "tokens";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        description = "Publishes text posts without accounts. Anyone posts a title and Markdown, gets a public address and an edit key that is shown once, and needs nothing else to read, edit or delete the page later.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "pages", description = "Text posts, each with its own edit key."),
        (name = TOKENS, description = "The edit key as a token, for clients that only support OAuth."),
    ),
    components(schemas(ErrorBody, TokenErrorBody)),
)]
pub(super) struct Description;

/// `described` has the operations. The result is indented JSON.
pub(super) fn document(mut described: OpenApi, base_url: &Origin, contact: Option<&Contact>) -> String {
    let info = &mut described.info;
    info.contact = Some(match contact {
        Some(Contact::Mail(address)) => ContactBuilder::new().name(Some("Abuse contact")).email(Some(address)).build(),
        Some(web @ Contact::Web(_)) => {
            ContactBuilder::new().name(Some("Abuse contact")).url(Some(web.to_string())).build()
        }
        // Without operators' contact, the service's address.
        None => ContactBuilder::new().name(Some(metadata::TITLE)).url(Some(base_url.as_str())).build(),
    });
    metadata::TITLE.clone_into(&mut info.title);
    metadata::INTERFACE_VERSION.clone_into(&mut info.version);
    described.servers = Some(vec![Server::new(base_url.as_str())]);
    let components = described.components.get_or_insert_default();
    components.add_security_scheme("editKey", edit_key());
    components.add_security_scheme("pageToken", page_token(base_url));
    for item in described.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
        operations.into_iter().flatten().for_each(complete);
    }
    let mut json = described.to_pretty_json().expect("the document is made of strings");
    json.push('\n');
    json
}

fn edit_key() -> SecurityScheme {
    let description = "The page's edit key, which was shown once when the page was created.";
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description));
    SecurityScheme::Http(scheme.build())
}

/// The exchange of a page's slug and key for a token.
fn page_token(base_url: &Origin) -> SecurityScheme {
    let flow = ClientCredentials::new(format!("{base_url}{}", metadata::path::TOKEN), Scopes::from_iter(oauth::SCOPES));
    let description = "The edit key as an OAuth token: `client_id` is the page's slug, `client_secret` its edit key.";
    SecurityScheme::OAuth2(OAuth2::with_description([Flow::ClientCredentials(flow)], description))
}

/// Adds what follows from the table of operations and from the limits.
fn complete(operation: &mut Operation) {
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        let limit = format!("At most {MAX_BODY_BYTES} bytes.");
        body.description = Some(body.description.take().map_or(limit.clone(), |more| format!("{limit} {more}")));
    }
    let is_token = operation.tags.iter().flatten().any(|tag| tag == TOKENS);
    let known = OPERATIONS.iter().find(|known| operation.operation_id.as_deref() == Some(known.operation_id));
    let limit = if is_token { Some(LimitKind::Token) } else { known.and_then(|known| known.limit) };
    let codes = if is_token { Code::OF_TOKENS.to_vec() } else { codes_of(operation, limit, known) };
    // No operation is asked with another method.
    for code in codes.into_iter().filter(|&code| code != Code::MethodNotAllowed) {
        add_error(operation, code, is_token);
    }
    describe_fields(operation, limit, is_token);
}

fn codes_of(operation: &Operation, limit: Option<LimitKind>, known: Option<&metadata::Operation>) -> Vec<Code> {
    let key_in_query = if limit == Some(LimitKind::Create) { Code::KeyInQueryOfPost } else { Code::KeyInQuery };
    let mut codes = vec![Code::InvalidRequest, key_in_query, Code::HeadersTooLarge, Code::Internal, Code::Unavailable];
    if operation.request_body.is_some() {
        codes.extend([Code::InvalidBody, Code::EmptyContent, Code::ContentRefused]);
        codes.extend([Code::Timeout, Code::ContentTooLarge, Code::BodyTooLarge]);
    }
    if let Some(parameters) = &operation.parameters {
        codes.extend([Code::NotFound, Code::Gone]);
        let has_query = parameters
            .iter()
            .any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query));
        codes.extend(has_query.then_some(Code::InvalidBody));
    }
    if known.is_some_and(|known| known.scope.is_some()) {
        codes.extend([Code::MissingKey, Code::InvalidKey, Code::PreconditionFailed]);
    }
    codes.extend(limit.map(|_| Code::RateLimited));
    codes.extend((limit == Some(LimitKind::Create)).then_some(Code::KeyInUse));
    codes
}

/// Errors that share a status share a description.
fn add_error(operation: &mut Operation, code: Code, is_token: bool) {
    let described = format!("`{}`: {}.", code.as_str(), code.advice());
    let responses = &mut operation.responses.responses;
    if let Some(RefOr::T(response)) = responses.get_mut(&code.status().to_string()) {
        response.description = format!("{} {described}", response.description);
        return;
    }
    let mut response = ResponseBuilder::new().description(described);
    if code.status() == 401 {
        let challenge =
            if is_token { "A `Basic` challenge." } else { "A `Bearer` challenge with `resource_metadata`." };
        response = response.header("WWW-Authenticate", header::<String>(challenge));
    }
    if matches!(code, Code::RateLimited | Code::Unavailable) {
        let description = "Whole seconds after which trying again makes sense; after a 429 it succeeds.";
        response = response.header("Retry-After", header::<u64>(description));
    }
    let schema = Ref::from_schema_name(if is_token { "TokenError" } else { "Error" });
    let content = ContentBuilder::new().schema(Some(schema)).build();
    responses.insert(code.status().to_string(), response.content("application/json", content).build().into());
}

/// Header fields by status, and of limited operations.
fn describe_fields(operation: &mut Operation, limit: Option<LimitKind>, is_token: bool) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        match &**status {
            _ if is_token => {
                add(response, "Cache-Control", "`no-store`: an answer may hold a secret.");
                add(response, "Pragma", "`no-cache`, for caches of HTTP/1.0.");
            }
            "200" | "304" => {
                add(response, "ETag", "The page's entity tag.");
                add(response, "Cache-Control", "`no-cache`: may be kept, must be revalidated.");
                add(
                    response,
                    "X-Robots-Tag",
                    "`noindex`, if the page links to another origin or the operators want no page indexed.",
                );
            }
            "400" if limit == Some(LimitKind::Create) => {
                add(response, "Cache-Control", "`no-store`, if the address holds a key.");
            }
            "401" => add(response, "Cache-Control", "`no-store`, if the address holds a key."),
            "404" | "410" => add(response, "Cache-Control", "`no-cache`: may be kept, must be revalidated."),
            _ => {}
        }
        if let Some(name) = limit.map(LimitKind::name) {
            let described = "if the request was counted or refused by it";
            add(
                response,
                "RateLimit",
                &format!("What is left of the limit, as `\"{name}\";r=<requests>;t=<seconds>`, {described}."),
            );
            add(
                response,
                "RateLimit-Policy",
                &format!("The limit, as `\"{name}\";q=<requests>;w=<seconds>`, {described}."),
            );
        }
    }
}

fn add(response: &mut utoipa::openapi::Response, name: &str, description: &str) {
    response.headers.insert(name.to_owned(), header::<String>(description).into());
}

fn header<T: PartialSchema>(description: impl Into<String>) -> Header {
    let mut header = Header::new(T::schema());
    header.description = Some(description.into());
    header
}
