//! The OpenAPI document, made from the declarations of the routes (spec §4.7).

use utoipa::OpenApi as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ClientCredentials, Flow, HttpAuthScheme, HttpBuilder, OAuth2, Scopes, SecurityScheme};
use utoipa::openapi::{ContactBuilder, OpenApi, RefOr, Server};

use super::answers::{describe_page_errors, describe_token_errors, header};
use crate::http::metadata::{self, OPERATIONS};
use crate::http::request::MAX_BODY_BYTES;
use crate::http::types::{ErrorBody, TokenErrorBody, set_limits};
use handbill_pages::ports::rate_limiter::LimitKind;
use handbill_pages::values::contact::Contact;
use handbill_pages::values::oauth;
use handbill_pages::values::origin::Origin;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        description = "Publishes text posts without accounts. Anyone posts a title and Markdown, gets a public address and an edit key that is shown once, and needs nothing else to read, edit or delete the page later.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "pages", description = "Text posts, each with its own edit key."),
        (name = "tokens", description = "The edit key as a token, for clients that only support OAuth."),
    ),
    components(schemas(ErrorBody, TokenErrorBody)),
)]
struct Description;

pub(in crate::http) fn description() -> OpenApi {
    Description::openapi()
}

/// `described` has the operations. The result is indented JSON.
pub(in crate::http) fn document(mut described: OpenApi, base_url: &Origin, contact: Option<&Contact>) -> String {
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
    let on_pages = OPERATIONS.iter().find(|known| operation.operation_id.as_deref() == Some(known.operation_id));
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        let limit = format!("At most {MAX_BODY_BYTES} bytes.");
        body.description = Some(body.description.take().map_or(limit.clone(), |more| format!("{limit} {more}")));
    }
    if let Some(known) = on_pages {
        describe_page_errors(operation, known.scope.is_some(), known.limit);
        describe_fields(operation, known.limit, false);
    } else {
        describe_token_errors(operation);
        describe_fields(operation, Some(LimitKind::Token), true);
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
