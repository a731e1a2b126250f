//! The tools: take arguments apart, call the service, shape the result.
//!
//! The service decides the order of checks, so it also gets arguments of the wrong shape. Only a call without a slug is
//! refused earlier.

use std::sync::Arc;

use rmcp::model::JsonObject;

use super::arguments::{take_key, take_slug};
use super::tool_result::ToolResult;
use super::tools::{GetOptions, ToolName, UpdateOptions, with_slug};
use crate::http::error::{self, ApiError, Interface};
use crate::http::request::body::{Fields, NoFields, parse_object};
use crate::http::request::client_addr::TrustedProxies;
use crate::http::types::{FieldsBody, Included};
use crate::telemetry::metrics::Metrics;
use handbill_pages::service::{Body, PageService, Precondition, ServiceError};
use handbill_pages::values::client::Client;
use handbill_pages::values::origin::Origin;
use handbill_pages::values::slug::Slug;

pub struct Mcp {
    pub service: PageService,
    pub base_url: Origin,
    pub proxies: TrustedProxies,
    pub metrics: Arc<Metrics>,
}

impl Mcp {
    pub(super) async fn call(
        &self,
        tool: ToolName,
        client: Client,
        arguments: JsonObject,
    ) -> Result<ToolResult, ApiError> {
        let arguments = without_null(arguments);
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
        let body: Body<FieldsBody> = parse_object(arguments, Fields::of::<FieldsBody>);
        let created = self.service.create(client, body.map(Into::into)).await.outcome?;
        Ok(ToolResult::created(&created, &self.base_url))
    }

    async fn get(&self, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let options: Body<GetOptions> = parse_object(arguments, GetOptions::fields);
        let slug = Slug::parse(&slug).map_err(|_| ServiceError::NotFound)?;
        let page = self.service.read(&slug).await?;
        Ok(ToolResult::read(&page, &self.base_url, options?.included()))
    }

    async fn update(&self, client: Client, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let options: Body<UpdateOptions> = parse_object(arguments, UpdateOptions::fields);
        let included = options.as_ref().map_or(Included::ALL, UpdateOptions::included);
        let body = std::future::ready(options.map(UpdateOptions::into_page_fields));
        let page = self.service.update(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(ToolResult::updated(&page, &self.base_url, included))
    }

    async fn delete(&self, client: Client, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let body = parse_object(arguments, || with_slug(&["edit_key"], Vec::new())).map(|NoFields {}| ());
        self.service.delete(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(ToolResult::deleted(slug))
    }
}

/// Models fill in null for arguments that they leave out.
fn without_null(mut arguments: JsonObject) -> JsonObject {
    arguments.retain(|_, value| !value.is_null());
    arguments
}
