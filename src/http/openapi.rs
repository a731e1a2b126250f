//! The OpenAPI document, made from the same declarations as the routes (spec §4.7).

use serde_json::json;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Header, OpenApi, Ref, ResponseBuilder, Server};
use utoipa::{Modify, OpenApi as _, PartialSchema};

use super::api_routes;
use crate::domain::origin::Origin;
use crate::problem::Problem;
use crate::service::{BodyFault, Failure};
use crate::wire::{CreatePage, CreatedBody, ErrorBody, PageBody, UpdatePage};

/// What stands above the operations.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Handbill",
        version = "0.1.0",
        description = "Publishes text posts without accounts. Anyone posts a title and Markdown, gets a public address and an edit key that is shown once, and needs nothing else to read, edit or delete the page later.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags((name = "pages", description = "Text posts, each with a key of its own.")),
    components(schemas(CreatePage, UpdatePage, PageBody, CreatedBody, ErrorBody)),
    modifiers(&EditKeyScheme),
)]
pub(super) struct Description;

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
    document.servers = Some(vec![Server::new(base_url.as_str())]);
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
        operations.into_iter().flatten().for_each(add_common_answers);
    }
    let mut json = document.to_pretty_json().expect("the document is made of strings");
    json.push('\n');
    json
}

/// Adds what any operation may answer, whatever it does: these come from the layers and stores around them all.
fn add_common_answers(operation: &mut Operation) {
    let timeout = Problem::from(&BodyFault::TimedOut);
    let common = [
        operation.request_body.as_ref().map(|_| ("The body did not arrive in time (`timeout`).", timeout)),
        Some(("Address and headers are too large (`headers_too_large`).", Problem::headers_too_large())),
        Some(("Handbill is at fault (`internal`).", Problem::internal())),
        Some(("A store is out of reach (`unavailable`).", Problem::from(&Failure::DeadlinePassed))),
    ];
    for (description, problem) in common.into_iter().flatten() {
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("Error")))
            .example(Some(json!({"error": problem.code.as_str(), "message": problem.message})))
            .build();
        let mut response = ResponseBuilder::new().description(description).content("application/json", content);
        if problem.retry_after.is_some() {
            let mut header = Header::new(u64::schema());
            header.description = Some("Whole seconds after which trying again makes sense.".to_owned());
            response = response.header("Retry-After", header);
        }
        let status = problem.code.status().to_string();
        operation.responses.responses.insert(status, response.build().into());
    }
}

/// The document without its operations, for [`api_routes`] to add them.
pub(super) fn description() -> OpenApi {
    Description::openapi()
}
