//! A service in this process that limits nobody. The fuzz target `authorization` uses this file too.

use std::sync::Arc;

use axum::Router;
use handbill::app::{Deps, PublicSettings, Publishing, public};
use handbill::http::request::client_addr::TrustedProxies;
use handbill::mcp::AllowedHosts;
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::rate_limiter::Quotas;
use handbill_pages::values::origin::Origin;

/// The public service over `store`, at `https://pages.example`.
pub(crate) fn front(store: Arc<dyn PageStore>, deps: &Deps) -> Router {
    let base_url = Origin::parse("https://pages.example").unwrap();
    let settings = PublicSettings {
        networks: Vec::new(),
        quotas: Quotas { create: None, edit: None, token: None },
        proxies: TrustedProxies { networks: Vec::new() },
        hosts: AllowedHosts::new([&base_url], Vec::new(), Vec::new()),
        base_url,
        publishing: Publishing::default(),
    };
    public(store, settings, deps)
}
