//! The state that all handlers share.

use std::{sync::Arc, time::Duration};

use http::HeaderValue;

use super::etag::{PageFacts, short_hash};
use super::page_cache::PageCache;
use crate::http::{metadata, negotiation::Compressor, request::client_addr::TrustedProxies};
use crate::settings::{Contact, SiteLink};
use crate::telemetry::http::RequestTelemetry;
use handbill_pages::service::PageService;
use handbill_pages::values::{head::PageHead, origin::Origin};

#[derive(Clone, Debug, Default)]
pub struct SiteSettings {
    /// For reports about a page or a vulnerability.
    pub abuse_contact: Option<Contact>,
    pub noindex_all: bool,
    /// The operators' own documents.
    pub links: Vec<SiteLink>,
    /// The separate host for the tools.
    pub mcp_base_url: Option<Origin>,
    /// `None` if shared caches may not keep pages.
    pub edge_max_age: Option<Duration>,
}

pub struct AppState {
    pub(crate) service: PageService,
    pub(super) cache: PageCache,
    pub(crate) telemetry: Arc<RequestTelemetry>,
    pub(crate) base_url: Origin,
    pub(crate) proxies: TrustedProxies,
    pub(crate) site: SiteSettings,
    /// Of the settings that a page shows: its entity tag depends on them.
    pub(super) origin_tag: String,
    /// `CDN-Cache-Control`, if shared caches may keep pages.
    pub(super) edge: Option<HeaderValue>,
    pub(super) compressor: Compressor,
}

impl SiteSettings {
    pub(super) fn mcp_origin<'a>(&'a self, base_url: &'a Origin) -> &'a Origin {
        self.mcp_base_url.as_ref().unwrap_or(base_url)
    }

    /// Where the tools are.
    pub fn mcp_url(&self, base_url: &Origin) -> String {
        format!("{}{}", self.mcp_origin(base_url), metadata::path::MCP)
    }
}

impl AppState {
    pub fn new(
        service: PageService,
        cache: PageCache,
        telemetry: RequestTelemetry,
        base_url: Origin,
        proxies: TrustedProxies,
        site: SiteSettings,
    ) -> Self {
        let cache = cache.subscribed_to(&service);
        let telemetry = Arc::new(telemetry);
        let contact = site.abuse_contact.as_ref().map(Contact::to_string);
        let links = site.links.iter().flat_map(|link| [link.name.to_owned(), link.target.to_string()]);
        let shown: Vec<_> = [base_url.to_string(), contact.unwrap_or_default(), site.noindex_all.to_string()]
            .into_iter()
            .chain(links)
            .collect();
        let origin_tag = short_hash(shown.iter().map(String::as_bytes));
        let max_age = site.edge_max_age.map(|max_age| format!("max-age={}", max_age.as_secs()));
        let edge = max_age.map(|max_age| HeaderValue::try_from(max_age).expect("it is ASCII"));
        Self { service, cache, telemetry, base_url, proxies, site, origin_tag, edge, compressor: Compressor::new() }
    }

    pub(super) fn about(&self, page: &PageHead) -> PageFacts {
        PageFacts {
            state: page.state(),
            renderer_version: page.state.renderer_version,
            is_noindex: self.site.noindex_all || page.has_external_links(&self.base_url),
        }
    }
}
