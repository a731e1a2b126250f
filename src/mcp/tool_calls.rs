//! What a tool does: takes its arguments apart without judging them, calls the service and shapes the result.
//!
//! The service decides the order of checks, so an argument that does not fit is handed to it as a fault of the body.
//! Only a call that names no page is refused before, since nothing can be looked up for it.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde::{Deserialize, Serialize};

use super::Mcp;
use super::arguments::{take_key, take_slug};
use super::error::error_result;
use super::page_result::PageSlot;
use super::tools::ToolName;
use crate::api::error::{self, ApiError, Code, Interface};
use crate::api::request::body::parse_object;
use crate::api::types::{CreatePage, CreatedBody, DeletedBody, UpdatePage};
use crate::domain::client::Client;
use crate::service::{Body, Precondition, ServiceError};

/// What `get_page` takes besides the slug.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetOptions {
    include_html: Option<bool>,
}

/// What `delete_page` takes besides slug and key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Mcp {
    /// The result of one call, and the code of its failure. A page that the result shows is left in `slot`.
    pub(super) async fn call(
        &self,
        tool: ToolName,
        client: Client,
        mut arguments: JsonObject,
        slot: &PageSlot,
    ) -> (CallToolResult, Option<Code>) {
        // Models fill in null for what they leave out.
        arguments.retain(|_, value| !value.is_null());
        let outcome = match tool {
            ToolName::Create => self.create(client, arguments).await,
            ToolName::Delete => self.delete(client, arguments).await,
            ToolName::Get => self.get(arguments, slot).await,
            ToolName::Update => self.update(client, arguments, slot).await,
        };
        match outcome {
            Ok(result) => (result, None),
            Err(error) => {
                error::log(&error);
                let error = ApiError::of(&error, Interface::Mcp);
                (error_result(&error), Some(error.code))
            }
        }
    }

    async fn create(&self, client: Client, arguments: JsonObject) -> Result<CallToolResult, ServiceError> {
        let body: Body<CreatePage> = parse_object(arguments, &["title", "content"]);
        let created = self.service.create(client, body.map(Into::into)).await.outcome?;
        Ok(success_result(&CreatedBody::new(&created, &self.base_url)))
    }

    async fn get(&self, mut arguments: JsonObject, slot: &PageSlot) -> Result<CallToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let options: Body<GetOptions> = parse_object(arguments, &["slug", "include_html"]);
        let page = self.service.read(&slug).await?;
        Ok(slot.leave(page, &self.base_url, options?.include_html.unwrap_or(true)))
    }

    async fn update(
        &self,
        client: Client,
        mut arguments: JsonObject,
        slot: &PageSlot,
    ) -> Result<CallToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let body: Body<UpdatePage> = parse_object(arguments, &["slug", "edit_key", "title", "content"]);
        let body = std::future::ready(body.map(Into::into));
        let page = self.service.update(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(slot.leave(page.into(), &self.base_url, true))
    }

    async fn delete(&self, client: Client, mut arguments: JsonObject) -> Result<CallToolResult, ServiceError> {
        let slug = take_slug(&mut arguments, &self.base_url)?;
        let credential = take_key(&mut arguments);
        let body = parse_object(arguments, &["slug", "edit_key"]).map(|Nothing {}| ());
        self.service.delete(client, &slug, &credential, body, &Precondition::default()).await.outcome?;
        Ok(success_result(&DeletedBody::new(slug)))
    }
}

/// A result as structured content, and the same as text for clients that read no other.
fn success_result<T: Serialize>(body: &T) -> CallToolResult {
    let text = serde_json::to_string(body).expect("it is made of strings");
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(serde_json::to_value(body).expect("it is made of strings"));
    result
}
