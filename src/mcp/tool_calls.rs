//! The tools. Each takes its arguments apart without judging them, calls the service and shapes the result.
//!
//! The service decides the order of checks, so an argument of the wrong shape is passed to it as an error of the body.
//! Only a call without a usable slug is refused earlier, since there is no page to look up.

use std::num::NonZero;
use std::sync::Arc;

use rmcp::model::JsonObject;
use serde::Deserialize;

use super::arguments::{take_key, take_slug};
use super::tool_result::ToolResult;
use super::tools::ToolName;
use crate::api::answer::{Answer, later, now, then};
use crate::api::error::{self, ApiError, Interface};
use crate::api::request::body::{Fields, parse_object};
use crate::api::request::client_addr::TrustedProxies;
use crate::api::request::subject::SubjectNames;
use crate::api::types::{CreatePage, DeletedBody, Included, Part};
use crate::domain::origin::Origin;
use crate::domain::slug::Slug;
use crate::domain::subject::Requester;
use crate::domain::text_edits::TextEdit;
use crate::service::{Body, PageRead, PageService, Precondition, ServiceError, UpdateFields};
use crate::telemetry::metrics::Metrics;

/// Everything that the tools need.
pub struct Mcp {
    /// The operations, and the order of their checks.
    pub service: PageService,
    /// The origin of every address in a result.
    pub base_url: Origin,
    /// The proxies that are believed about a client's address.
    pub proxies: TrustedProxies,
    /// The places in which calls name one of those who share an address.
    pub subjects: SubjectNames,
    /// Counts the calls.
    pub metrics: Arc<Metrics>,
}

/// The arguments of `get_page` besides the slug.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetOptions {
    include_html: Option<bool>,
    offset: Option<usize>,
    max_chars: Option<NonZero<usize>>,
}

impl GetOptions {
    /// The texts that the result includes. Without an option it has all of them.
    fn included(&self) -> Included {
        let is_part = self.offset.is_some() || self.max_chars.is_some();
        let part =
            Part { offset: self.offset.unwrap_or(0), max_chars: self.max_chars.map_or(usize::MAX, NonZero::get) };
        Included { content: true, html: self.include_html.unwrap_or(true), part: is_part.then_some(part) }
    }
}

/// The arguments of `update_page` besides the slug and the key. Absent ones keep their value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateOptions {
    title: Option<String>,
    content: Option<String>,
    edits: Option<Vec<EditArgument>>,
    if_updated_at: Option<String>,
    include_content: Option<bool>,
    include_html: Option<bool>,
}

/// The arguments of `update_page`.
const UPDATE_FIELDS: Fields = Fields {
    names: &["slug", "edit_key", "title", "content", "edits", "if_updated_at", "include_content", "include_html"],
    lists: &[("edits", &["old", "new"])],
};

/// One of the `edits` of `update_page`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditArgument {
    old: String,
    new: String,
}

impl UpdateOptions {
    /// The texts that the result includes.
    fn included(&self) -> Included {
        Included { content: self.include_content.unwrap_or(true), html: self.include_html.unwrap_or(true), part: None }
    }
}

impl From<UpdateOptions> for UpdateFields {
    fn from(options: UpdateOptions) -> Self {
        let edits = |edits: Vec<EditArgument>| {
            edits.into_iter().map(|EditArgument { old, new }| TextEdit { old, new }).collect()
        };
        Self {
            title: options.title.map(Some),
            content: options.content.map(Some),
            edits: options.edits.map(edits),
            if_updated_at: options.if_updated_at,
        }
    }
}

/// `delete_page` has no arguments besides slug and key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Mcp {
    /// The result of one call.
    pub(super) fn call(
        self: &Arc<Self>,
        tool: ToolName,
        requester: Requester,
        arguments: JsonObject,
    ) -> Answer<Result<ToolResult, ApiError>> {
        let (mcp, arguments) = (Arc::clone(self), without_null(arguments));
        let result = match tool {
            ToolName::Create => later(async move { mcp.create(requester, arguments).await }),
            ToolName::Delete => later(async move { mcp.delete(requester, arguments).await }),
            ToolName::Get => self.get(arguments),
            ToolName::Update => later(async move { mcp.update(requester, arguments).await }),
        };
        then(result, |result| {
            now(result.map_err(|error| {
                error::log(&error);
                ApiError::of(&error, Interface::Mcp)
            }))
        })
    }

    async fn create(&self, requester: Requester, arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let body: Body<CreatePage> = parse_object(arguments, &Fields::of(&["title", "content"]));
        let created = self.service.create(requester, body.map(Into::into)).await.outcome?;
        Ok(ToolResult::created(&created, &self.base_url))
    }

    fn get(self: &Arc<Self>, mut arguments: JsonObject) -> Answer<Result<ToolResult, ServiceError>> {
        let slug = match take_slug(&mut arguments, &self.base_url) {
            Ok(slug) => slug,
            Err(error) => return now(Err(error.into())),
        };
        let options: Body<GetOptions> =
            parse_object(arguments, &Fields::of(&["slug", "include_html", "offset", "max_chars"]));
        let Ok(slug) = Slug::parse(&slug) else { return now(Err(ServiceError::NotFound)) };
        let show = |page: PageRead, base_url: &Origin| Ok(ToolResult::read(&page, base_url, options?.included()));
        if let Some(page) = self.service.read_now(&slug) {
            return now(page.and_then(|page| show(page, &self.base_url)));
        }
        let mcp = Arc::clone(self);
        later(async move { show(mcp.service.read(&slug).await?, &mcp.base_url) })
    }

    async fn update(&self, requester: Requester, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let options: Body<UpdateOptions> = parse_object(arguments, &UPDATE_FIELDS);
        let included = options.as_ref().map(UpdateOptions::included).ok();
        let body = std::future::ready(options.map(Into::into));
        let page = self.service.update(requester, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(ToolResult::updated(page, &self.base_url, included.unwrap_or(Included::ALL)))
    }

    async fn delete(&self, requester: Requester, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let body = parse_object(arguments, &Fields::of(&["slug", "edit_key"])).map(|Nothing {}| ());
        self.service.delete(requester, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(ToolResult::json(&DeletedBody::new(slug)))
    }
}

/// `arguments` without those that are null. Models fill in null for arguments that they leave out.
fn without_null(mut arguments: JsonObject) -> JsonObject {
    arguments.retain(|_, value| !value.is_null());
    arguments
}
