//! The tools. Each takes its arguments apart without judging them, calls the service and shapes the result.
//!
//! The service decides the order of checks, so an argument of the wrong shape is passed to it as an error of the body.
//! Only a call without a usable slug is refused earlier, since there is no page to look up.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde::Deserialize;

use super::arguments::{take_key, take_slug};
use super::tool_result::ToolResult;
use super::tools::ToolName;
use crate::api::error::{self, ApiError, Interface};
use crate::api::request::body::parse_object;
use crate::api::request::client_addr::TrustedProxies;
use crate::api::types::{CreatePage, CreatedBody, DeletedBody, PageBody, UpdatePage};
use crate::domain::client::Client;
use crate::domain::origin::Origin;
use crate::service::{Body, PageService, Precondition, ServiceError};
use crate::telemetry::metrics::Metrics;

/// Everything that the tools need.
pub struct Mcp {
    /// The operations, and the order of their checks.
    pub service: PageService,
    /// The origin of every address in a result.
    pub base_url: Origin,
    /// The proxies that are believed about a client's address.
    pub proxies: TrustedProxies,
    /// Counts the calls.
    pub metrics: Arc<Metrics>,
}

/// The arguments of `get_page` besides the slug.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetOptions {
    include_html: Option<bool>,
}

/// `delete_page` has no arguments besides slug and key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Mcp {
    /// The result of one call.
    pub(super) async fn call(
        &self,
        tool: ToolName,
        client: Client,
        mut arguments: JsonObject,
    ) -> Result<ToolResult, ApiError> {
        // Models fill in null for arguments that they leave out.
        arguments.retain(|_, value| !value.is_null());
        let result = match tool {
            ToolName::Create => self.create(client, arguments).await,
            ToolName::Delete => self.delete(client, arguments).await,
            ToolName::Get => self.get(arguments).await,
            ToolName::Update => self.update(client, arguments).await,
        };
        result.map_err(|error| {
            error::log(&error);
            ApiError::of(&error, Interface::Mcp)
        })
    }

    async fn create(&self, client: Client, arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let body: Body<CreatePage> = parse_object(arguments, &["title", "content"]);
        let created = self.service.create(client, body.map(Into::into)).await.outcome?;
        Ok(ToolResult::json(&CreatedBody::new(&created, &self.base_url)))
    }

    async fn get(&self, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let options: Body<GetOptions> = parse_object(arguments, &["slug", "include_html"]);
        let page = self.service.read(&slug).await?;
        Ok(ToolResult::Page(PageBody::json(page.share(), &self.base_url, options?.include_html.unwrap_or(true))))
    }

    async fn update(&self, client: Client, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let body: Body<UpdatePage> = parse_object(arguments, &["slug", "edit_key", "title", "content"]);
        let body = std::future::ready(body.map(Into::into));
        let page = self.service.update(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(ToolResult::Page(PageBody::json(page, &self.base_url, true)))
    }

    async fn delete(&self, client: Client, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let body = parse_object(arguments, &["slug", "edit_key"]).map(|Nothing {}| ());
        self.service.delete(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(ToolResult::json(&DeletedBody::new(slug)))
    }
}
