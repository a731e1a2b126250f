//! The tools: take arguments apart, call the service, shape the result.
//!
//! The service decides the order of checks, so it also gets arguments of the wrong shape. Only a call without a slug is
//! refused earlier. All tools read the common arguments in the same way (contract, decision 15).

use std::future::ready;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Resource};
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use super::tools::{DeleteOptions, GetOptions, ToolName, UpdateOptions};
use crate::http::error::{self, ApiError, Interface};
use crate::http::types::{CreatedBody, DeletedBody, FieldsBody, Included, PageBody, edit_url, page_url};
use crate::http::{AppState, request::credential, request::fields::parse_object};
use handbill_pages::service::{Body, BodyError, Created, Credential, LateBody, Precondition, ServiceError};
use handbill_pages::values::slug::{Slug, name_in_path};
use handbill_pages::values::{client::Client, edit_key::PUBLISHED_KEY_WARNING, origin::Origin, page::Page};

pub(super) async fn call(
    app: &AppState,
    tool: ToolName,
    client: Client,
    arguments: JsonObject,
) -> Result<ToolResult, ApiError> {
    let arguments = without_null(arguments);
    let result = match tool {
        ToolName::Create => create(app, client, arguments).await,
        ToolName::Delete => delete(app, client, arguments).await,
        ToolName::Get => get(app, arguments).await,
        ToolName::Update => update(app, client, arguments).await,
    };
    result.map_err(|error| {
        error::log(&error);
        ApiError::of(&error, Interface::Tools)
    })
}

async fn create(app: &AppState, client: Client, arguments: JsonObject) -> Result<ToolResult, ServiceError> {
    let body: Body<FieldsBody> = parse_object(arguments);
    let created = app.service.create(client, body.map(Into::into)).await.outcome?;
    Ok(ToolResult::created(&created, &app.base_url))
}

async fn get(app: &AppState, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
    let slug = take_slug(&mut arguments, &app.base_url)?;
    let options: Body<GetOptions> = parse_object(arguments);
    let slug = Slug::parse(&slug).map_err(|_| ServiceError::NotFound)?;
    let page = app.service.read(&slug).page().await?;
    Ok(ToolResult::read(&page, &app.base_url, options?.included()))
}

async fn update(app: &AppState, client: Client, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
    let slug = take_slug(&mut arguments, &app.base_url)?;
    let credential = take_key(&mut arguments);
    let options: Body<UpdateOptions> = parse_object(arguments);
    let included = options.as_ref().map_or(Included::ALL, UpdateOptions::included);
    let body = LateBody { fields: ready(options.map(UpdateOptions::into_page_fields)), is_awaited: false };
    let page = app.service.update(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
    Ok(ToolResult::updated(&page, &app.base_url, included))
}

async fn delete(app: &AppState, client: Client, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
    let slug = take_slug(&mut arguments, &app.base_url)?;
    let credential = take_key(&mut arguments);
    let body = parse_object(arguments).map(|DeleteOptions| ());
    app.service.delete(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
    Ok(ToolResult::deleted(slug))
}

/// Models fill in null for arguments that they leave out.
fn without_null(mut arguments: JsonObject) -> JsonObject {
    arguments.retain(|_, value| !value.is_null());
    arguments
}

/// Bytes: a slug has at most 69, and `/api/pages/` 11.
const MAX_PATH_BYTES: usize = 128;

/// Also accepts every address of a page that Handbill gives out. Other text finds no page.
pub(super) fn take_slug(arguments: &mut JsonObject, base_url: &Origin) -> Body<String> {
    let message = match arguments.remove("slug") {
        Some(Value::String(text)) => return Ok(slug_named(&text, base_url)),
        Some(_) => "The field `slug` has the wrong type. Send it as a string.",
        None => "The field `slug` is missing. Send it as a string: it is the last part of the page's `url`.",
    };
    Err(BodyError::Malformed(message.to_owned()))
}

pub(super) fn take_key(arguments: &mut JsonObject) -> Credential {
    credential::in_argument(arguments.remove("edit_key").as_ref())
}

fn slug_named(text: &str, base_url: &Origin) -> String {
    let text = text.trim();
    // Parsing an address of 128 KB takes up to 8 ms.
    if text.len() > base_url.as_str().len() + MAX_PATH_BYTES {
        return text.to_owned();
    }
    match Url::parse(text) {
        Ok(url) if is_of(&url, base_url) => name_in_path(url.path()).to_owned(),
        _ => name_in_path(text).to_owned(),
    }
}

fn is_of(url: &Url, base_url: &Origin) -> bool {
    let names_nobody = url.username().is_empty() && url.password().is_none();
    names_nobody && Origin::of(url).as_ref() == Some(base_url)
}

pub(super) struct ToolResult {
    structured: Value,
    link: Option<Resource>,
    /// For the person, who cannot do much with a bare key.
    edit_link: Option<String>,
    warning: Option<&'static str>,
}

impl ToolResult {
    fn of(body: &impl Serialize) -> Self {
        let structured = serde_json::to_value(body).expect("strings and numbers serialise");
        Self { structured, link: None, edit_link: None, warning: None }
    }

    pub(super) fn deleted(slug: String) -> Self {
        Self::of(&DeletedBody { slug, deleted: true })
    }

    pub(super) fn read(page: &Page, base_url: &Origin, included: Included) -> Self {
        Self { link: Some(link_to(page, base_url)), ..Self::of(&PageBody::of(page, base_url, included)) }
    }

    pub(super) fn updated(page: &Page, base_url: &Origin, included: Included) -> Self {
        Self { warning: warning_about(page), ..Self::read(page, base_url, included) }
    }

    pub(super) fn created(created: &Created, base_url: &Origin) -> Self {
        let page = &created.page;
        let edit_link = format!(
            "The secret edit link, for the user alone: {} Anyone who has it can change and delete the page.",
            edit_url(created, base_url),
        );
        Self {
            link: Some(link_to(page, base_url)),
            edit_link: Some(edit_link),
            warning: warning_about(page),
            ..Self::of(&CreatedBody::new(created, base_url))
        }
    }

    pub(super) fn for_client(self, knows_links: bool) -> CallToolResult {
        let mut result = CallToolResult::structured(self.structured);
        result.content.extend(self.link.filter(|_| knows_links).map(ContentBlock::ResourceLink));
        result.content.extend(self.edit_link.map(ContentBlock::text));
        result.content.extend(self.warning.map(ContentBlock::text));
        result
    }
}

pub(super) fn tool_error(error: &ApiError) -> String {
    let mut body = json!({"error": error.code.as_str(), "message": error.message, "status": error.code.status()});
    if let Some(seconds) = error.retry_after {
        body["retry_after"] = seconds.into();
    }
    body.to_string()
}

fn warning_about(page: &Page) -> Option<&'static str> {
    page.seems_to_hold_a_key().then_some(PUBLISHED_KEY_WARNING)
}

fn link_to(page: &Page, base_url: &Origin) -> Resource {
    Resource::new(page_url(&page.head.slug, base_url), page.head.slug.as_str()).with_mime_type("text/html")
}
