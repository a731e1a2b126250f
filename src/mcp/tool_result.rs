//! A tool's result: JSON as text for every client, and as structured content.

use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde::Serialize;
use serde_json::{Value, json};

use crate::http::error::ApiError;
use crate::http::types::{CreatedBody, DeletedBody, Included, PageBody, page_url};
use handbill_pages::service::Created;
use handbill_pages::values::edit_key::PUBLISHED_KEY_WARNING;
use handbill_pages::values::origin::Origin;
use handbill_pages::values::page::Page;

pub(super) struct ToolResult {
    structured: Value,
    link: Option<Resource>,
    warning: Option<&'static str>,
}

impl ToolResult {
    fn of(body: &impl Serialize) -> Self {
        let structured = serde_json::to_value(body).expect("strings and numbers serialise");
        Self { structured, link: None, warning: None }
    }

    pub(super) fn deleted(slug: String) -> Self {
        Self::of(&DeletedBody::new(slug))
    }

    pub(super) fn read(page: &Page, base_url: &Origin, included: Included) -> Self {
        Self { link: Some(link_to(page, base_url)), ..Self::of(&PageBody::of(page, base_url, included)) }
    }

    pub(super) fn updated(page: &Page, base_url: &Origin, included: Included) -> Self {
        Self { warning: warning_about(page), ..Self::read(page, base_url, included) }
    }

    pub(super) fn created(created: &Created, base_url: &Origin) -> Self {
        let page = &created.page;
        let (link, warning) = (Some(link_to(page, base_url)), warning_about(page));
        Self { link, warning, ..Self::of(&CreatedBody::new(created, base_url)) }
    }

    pub(super) fn for_client(self, knows_links: bool) -> CallToolResult {
        let mut result = CallToolResult::structured(self.structured);
        result.content.extend(self.link.filter(|_| knows_links).map(ContentBlock::ResourceLink));
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
