//! The OpenAPI document, made from the declarations of the routes and from real errors of the service (spec §4.7).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ClientCredentials, Flow, HttpAuthScheme, HttpBuilder, OAuth2, Scopes, SecurityScheme};
use utoipa::openapi::{
    ContactBuilder, ContentBuilder, Header, OpenApi, Ref, RefOr, Response, ResponseBuilder, Schema, Server,
};
use utoipa::{OpenApi as _, PartialSchema};

use crate::http::error::{ApiError, Code};
use crate::http::metadata::{self, OPERATIONS};
use crate::http::request::MAX_BODY_BYTES;
use crate::http::types::{ErrorBody, TokenErrorBody};
use handbill_pages::ports::rate_limiter::LimitKind;
use handbill_pages::service::oauth;
use handbill_pages::service::{BodyError, BodyReadError, FormError, ServiceError, TokenError};
use handbill_pages::values::contact::Contact;
use handbill_pages::values::content::{ContentError, MAX_BYTES};
use handbill_pages::values::origin::Origin;
use handbill_pages::values::quota::{Decision, Quota};
use handbill_pages::values::slug::Reserved;
use handbill_pages::values::title::MAX_CHARS;

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
struct Description;

pub(super) fn description() -> OpenApi {
    Description::openapi()
}

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
    set_limits(&mut components.schemas);
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
    if operation.tags.iter().flatten().any(|tag| tag == TOKENS) {
        describe_token_errors(operation);
        describe_fields(operation, Some(LimitKind::Token), true);
    } else {
        let known = OPERATIONS.iter().find(|known| operation.operation_id.as_deref() == Some(known.operation_id));
        let limit = known.and_then(|known| known.limit);
        describe_page_errors(operation, known.is_some_and(|known| known.scope.is_some()), limit);
        describe_fields(operation, limit, false);
    }
}

/// Header fields by status, and of limited operations.
fn describe_fields(operation: &mut Operation, limit: Option<LimitKind>, is_token: bool) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        let mut add = |name: &str, description: String| {
            response.headers.insert(name.to_owned(), header::<String>(description).into());
        };
        if is_token {
            add("Cache-Control", "`no-store`: an answer may hold a secret.".to_owned());
            add("Pragma", "`no-cache`, for caches of HTTP/1.0.".to_owned());
        } else if status == "401" {
            add("Cache-Control", "`no-store`, if the address holds a key.".to_owned());
        } else if ["404", "410"].contains(&status.as_str()) {
            add("Cache-Control", "`no-cache`: may be kept, must be revalidated.".to_owned());
        }
        if let Some(limited) = limit.filter(|&limited| is_asked(limited, status)) {
            let name = limited.name();
            add("RateLimit", format!("What is left of the limit, as `\"{name}\";r=<requests>;t=<seconds>`."));
            add("RateLimit-Policy", format!("The limit, as `\"{name}\";q=<requests>;w=<seconds>`."));
        }
    }
}

/// The query, a create's body and the head's size are checked before the limiter; a 400 may come before or after it.
fn is_asked(limited: LimitKind, status: &str) -> bool {
    let before: &[&str] = if limited == LimitKind::Create { &["401", "408", "413", "431"] } else { &["431"] };
    !before.contains(&status)
}

/// A status's description, which names all errors that share it, and one of them.
type Example = (&'static str, ApiError);

fn describe_page_errors(operation: &mut Operation, needs_key: bool, limit: Option<LimitKind>) {
    let mut answers = common();
    if operation.request_body.is_some() {
        answers.extend(body(limit == Some(LimitKind::Create)));
    } else {
        answers.push(("The request head is invalid (`invalid_request`).", ApiError::no_host()));
    }
    if operation.parameters.is_some() {
        answers.extend(no_page());
    }
    if needs_key {
        answers.extend(not_changed());
    } else {
        let error = ApiError::from(&ServiceError::KeyInQuery);
        answers.push(("An edit key is in the query string (`key_in_query`).", error));
    }
    answers.extend(limit.map(rate_limited));
    add(operation, answers, "Error", "A `Bearer` challenge with `resource_metadata`.", |error| {
        json!(ErrorBody::new(error))
    });
}

fn describe_token_errors(operation: &mut Operation) {
    let mut answers = common();
    answers.extend(token());
    answers.push(rate_limited(LimitKind::Token));
    add(operation, answers, "TokenError", "A `Basic` challenge.", |error| json!(TokenErrorBody::new(error)));
}

/// Errors of every operation, from the layers or a store.
fn common() -> Vec<Example> {
    vec![
        ("The address and headers are too large (`headers_too_large`).", ApiError::headers_too_large()),
        ("Handbill is at fault (`internal`).", ApiError::internal()),
        ("A store is unavailable (`unavailable`).", ApiError::from(&ServiceError::DeadlinePassed)),
    ]
}

fn body(of_create: bool) -> [Example; 3] {
    let error = |error| ApiError::from(&ServiceError::Body(error));
    let invalid = if of_create {
        "Invalid body (`invalid_body`), empty content (`empty_content`), or an invalid request head (`invalid_request`). After the limit, and so with quota: content that the operators do not publish (`content_refused`), a key that is in use (`key_in_use`)."
    } else {
        "Invalid body (`invalid_body`), empty content (`empty_content`), content that the operators do not publish (`content_refused`), or an invalid request head (`invalid_request`)."
    };
    [
        (invalid, error(BodyError::Content(ContentError::Empty))),
        ("The body did not arrive in time (`timeout`).", error(BodyError::Read(BodyReadError::TimedOut))),
        (
            "The content (`content_too_large`) or the body (`body_too_large`) is too large.",
            error(BodyError::Content(ContentError::TooLarge { bytes: MAX_BYTES + 1 })),
        ),
    ]
}

fn no_page() -> [Example; 2] {
    [
        ("No page ever had this slug (`not_found`).", ApiError::from(&ServiceError::NotFound)),
        ("The page was deleted (`gone`).", ApiError::from(&ServiceError::Gone)),
    ]
}

fn not_changed() -> [Example; 2] {
    [
        (
            "No key (`missing_key`), a wrong one (`invalid_key`), or one in the query string (`key_in_query`).",
            ApiError::from(&ServiceError::InvalidKey),
        ),
        (
            "The page has changed since the state in `If-Match`, or is in one that `If-None-Match` names (`precondition_failed`).",
            ApiError::from(&ServiceError::PreconditionFailed),
        ),
    ]
}

fn token() -> [Example; 4] {
    let error = |error| ApiError::from(&ServiceError::Token(error));
    [
        (
            "The form cannot be read (`invalid_request`), asks for another grant (`unsupported_grant_type`) or for an unknown scope (`invalid_scope`).",
            error(TokenError::Form(FormError::NoGrantType)),
        ),
        ("The client credentials are missing or wrong (`invalid_client`).", error(TokenError::WrongClient)),
        (
            "The body did not arrive in time (`timeout`).",
            error(TokenError::Form(FormError::Read(BodyReadError::TimedOut))),
        ),
        (
            "The body is too large (`body_too_large`).",
            error(TokenError::Form(FormError::Read(BodyReadError::TooLarge))),
        ),
    ]
}

/// The specification's default limit (§8), used up half an hour ago.
fn rate_limited(limited: LimitKind) -> Example {
    let limit = if limited == LimitKind::Create { 10 } else { 60 };
    let quota = Quota { limit, window: Duration::from_hours(1) };
    let more_after = Duration::from_mins(30);
    let decision = Decision { admitted: false, quota, remaining: 0, more_after, slug: Reserved::NotAsked };
    ("Rate limited (`rate_limited`).", ApiError::from(&ServiceError::RateLimited(limited, decision)))
}

fn add(operation: &mut Operation, answers: Vec<Example>, schema: &str, challenge: &str, body: fn(ApiError) -> Value) {
    for (description, error) in answers {
        let status = error.code.status().to_string();
        operation.responses.responses.insert(status, response(description, error, schema, challenge, body).into());
    }
}

fn response(
    description: &str,
    error: ApiError,
    schema: &str,
    challenge: &str,
    body: fn(ApiError) -> Value,
) -> Response {
    let mut response = ResponseBuilder::new().description(description);
    if error.code.status() == 401 {
        response = response.header("WWW-Authenticate", header::<String>(challenge));
    }
    if error.retry_after.is_some() {
        let what = match error.code {
            Code::RateLimited => "Whole seconds after which the next request succeeds.",
            _ => "Whole seconds after which trying again makes sense.",
        };
        response = response.header("Retry-After", header::<u64>(what));
    }
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).example(Some(body(error)));
    response.content("application/json", content.build()).build()
}

fn header<T: PartialSchema>(description: impl Into<String>) -> Header {
    let mut header = Header::new(T::schema());
    header.description = Some(description.into());
    header
}

/// A schema, one of its fields, and its `maxLength`.
const LONGEST: [(&str, &str, usize); 5] = [
    ("CreatePage", "title", MAX_CHARS),
    ("CreatePage", "content", MAX_BYTES),
    ("UpdatePage", "title", MAX_CHARS),
    ("UpdatePage", "content", MAX_BYTES),
    ("Page", "title", MAX_CHARS),
];

fn set_limits(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    for (name, field, longest) in LONGEST {
        if let Some(RefOr::T(Schema::Object(schema))) = schemas.get_mut(name)
            && let Some(RefOr::T(Schema::Object(field))) = schema.properties.get_mut(field)
        {
            field.max_length = Some(longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use utoipa::PartialSchema;

    use crate::http::types::{CreateBody, FieldsBody, PageBody};

    use super::*;

    #[test]
    fn the_limits_in_the_schemas_are_the_limits_in_force() {
        let mut schemas = BTreeMap::from([
            ("CreatePage".to_owned(), CreateBody::schema()),
            ("UpdatePage".to_owned(), FieldsBody::schema()),
            ("Page".to_owned(), PageBody::schema()),
        ]);
        set_limits(&mut schemas);
        let schemas = json!(schemas);
        for (name, field, longest) in LONGEST {
            assert_eq!(schemas[name]["properties"][field]["maxLength"], longest, "{name}: {field}");
        }
        for name in ["CreatePage", "UpdatePage"] {
            let description = schemas[name]["properties"]["content"]["description"].as_str().unwrap();
            assert!(description.contains("Its length counts bytes of UTF-8"), "{name}: {description}");
        }
    }
}
