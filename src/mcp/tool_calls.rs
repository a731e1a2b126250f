//! The tools. Each takes its arguments apart without judging them, calls the service and shapes the result.
//!
//! The service decides the order of checks, so an argument of the wrong shape is passed to it as an error of the body.
//! Only a call without a usable slug is refused earlier, since there is no page to look up.

use std::sync::Arc;

use rmcp::model::JsonObject;

use super::arguments::{take_key, take_slug};
use super::tool_result::ToolResult;
use super::tools::{GetOptions, ToolName, UpdateOptions, keyed};
use crate::api::answer::{Answer, later, now, then};
use crate::api::error::{self, ApiError, Interface};
use crate::api::request::body::{Fields, NoFields, parse_both, parse_object};
use crate::api::request::client_addr::TrustedProxies;
use crate::api::types::{FieldsBody, Included};
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::client::Client;
use handbill_core::domain::origin::Origin;
use handbill_core::domain::slug::Slug;
use handbill_core::service::{Body, Kept, PageService, Precondition, Reading, ServiceError};

pub struct Mcp {
    /// The operations, and the order of their checks.
    pub service: PageService,
    /// The origin of every address in a result.
    pub base_url: Origin,
    /// The proxies that are believed about a client's address.
    pub proxies: TrustedProxies,
    pub metrics: Arc<Metrics>,
}

impl Mcp {
    pub(super) fn call(
        self: &Arc<Self>,
        tool: ToolName,
        client: Client,
        arguments: JsonObject,
    ) -> Answer<Result<ToolResult, ApiError>> {
        let (mcp, arguments) = (Arc::clone(self), without_null(arguments));
        let result = match tool {
            ToolName::Create => later(async move { mcp.create(client, arguments).await }),
            ToolName::Delete => later(async move { mcp.delete(client, arguments).await }),
            ToolName::Get => self.get(arguments),
            ToolName::Update => later(async move { mcp.update(client, arguments).await }),
        };
        then(result, |result| {
            now(result.map_err(|error| {
                error::log(&error);
                ApiError::of(&error, Interface::Mcp)
            }))
        })
    }

    async fn create(&self, client: Client, arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let body: Body<FieldsBody> = parse_object(arguments, Fields::of::<FieldsBody>);
        let created = self.service.create(client, body.map(Into::into)).await.outcome?;
        Ok(ToolResult::created(&created, &self.base_url))
    }

    fn get(self: &Arc<Self>, mut arguments: JsonObject) -> Answer<Result<ToolResult, ServiceError>> {
        let slug = match take_slug(&mut arguments, &self.base_url) {
            Ok(slug) => slug,
            Err(error) => return now(Err(error.into())),
        };
        let options: Body<GetOptions> = parse_object(arguments, GetOptions::fields);
        let Ok(slug) = Slug::parse(&slug) else { return now(Err(ServiceError::NotFound)) };
        let finished = |options: &Body<GetOptions>, kept: &Kept| ToolResult::finished(kept, options.as_ref().ok()?);
        let show = |options: Body<GetOptions>, reading, base_url: &Origin| match reading {
            Reading::Answered(result) => Ok(result),
            Reading::Page(page) => Ok(ToolResult::read(&page, base_url, options?.included())),
        };
        if let Some(reading) = self.service.read_now(&slug, |kept| finished(&options, kept)) {
            return now(reading.and_then(|reading| show(options, reading, &self.base_url)));
        }
        let mcp = Arc::clone(self);
        later(async move {
            let reading = mcp.service.read_unless(&slug, |kept| finished(&options, kept), |_| None).await?;
            show(options, reading, &mcp.base_url)
        })
    }

    async fn update(&self, client: Client, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let parsed: Body<(FieldsBody, UpdateOptions)> = parse_both(arguments, UpdateOptions::fields);
        let included = parsed.as_ref().map_or(Included::ALL, |(_, options)| options.included());
        let body = std::future::ready(parsed.map(|(fields, options)| options.with(fields.into())));
        let page = self.service.update(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(ToolResult::updated(page, &self.base_url, included))
    }

    async fn delete(&self, client: Client, mut arguments: JsonObject) -> Result<ToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let body = parse_object(arguments, || keyed(&[])).map(|NoFields {}| ());
        self.service.delete(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(ToolResult::deleted(slug))
    }
}

/// `arguments` without those that are null. Models fill in null for arguments that they leave out.
fn without_null(mut arguments: JsonObject) -> JsonObject {
    arguments.retain(|_, value| !value.is_null());
    arguments
}
