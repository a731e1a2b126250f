//! The public routes over a store and a limiter, as a process and a test have them.

use std::sync::Arc;

use axum::Router;

use super::backends::{self, Deps};
use crate::http::{AppState, PageCache, SiteSettings, front, request::client_addr::TrustedProxies};
use crate::mcp::{self, AllowedHosts};
use crate::settings::Settings;
use crate::telemetry::http::RequestTelemetry;
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::rate_limiter::{Quotas, RateLimiter};
use handbill_pages::service::{PageService, PublishingPolicy, ServiceParts, SharedStore};
use handbill_pages::values::{client::SharedNetwork, origin::Origin};

/// Bytes of pages over 64 KiB in use: five of the largest, which count twice.
const LARGE_PAGES_BUDGET: usize = 8 << 20;

pub struct PublicSettings {
    pub quotas: Quotas,
    /// Their clients share one larger window.
    pub networks: Vec<SharedNetwork>,
    /// Begins every address that is given out.
    pub base_url: Origin,
    /// Their `X-Forwarded-For` is believed.
    pub proxies: TrustedProxies,
    /// Hosts and origins that may call the tools.
    pub hosts: AllowedHosts,
    pub policy: PublishingPolicy,
    pub site: SiteSettings,
}

impl PublicSettings {
    /// Limits nobody, and allows everything to be published.
    pub fn open(base_url: Origin) -> Self {
        Self {
            quotas: Quotas { create: None, edit: None, token: None },
            networks: Vec::new(),
            proxies: TrustedProxies { networks: Vec::new() },
            hosts: AllowedHosts::new([&base_url], Vec::new(), Vec::new()),
            policy: PublishingPolicy::default(),
            site: SiteSettings::default(),
            base_url,
        }
    }

    pub(super) fn of(settings: &Settings, base_url: Origin, policy: PublishingPolicy) -> Self {
        let (http, moderation) = (&settings.http, &settings.moderation);
        let (names, origins) = http.allowed();
        Self {
            quotas: settings.rate_limits.quotas(),
            networks: settings.rate_limits.limit_networks.clone(),
            proxies: TrustedProxies { networks: http.trusted_proxies.clone() },
            hosts: AllowedHosts::new([&base_url].into_iter().chain(&http.mcp_base_url), names, origins),
            policy,
            site: SiteSettings {
                abuse_contact: moderation.contacts.abuse_contact.clone(),
                noindex_all: moderation.noindex_all,
                links: http.site_links.clone(),
                mcp_base_url: http.mcp_base_url.clone(),
                edge_max_age: settings.edge.max_age(),
            },
            base_url,
        }
    }
}

/// The public routes with a limiter in this process.
pub fn public(store: Arc<dyn PageStore>, settings: PublicSettings, deps: &Deps) -> Router {
    public_over(backends::observed(store, deps), backends::in_process(deps), settings, deps)
}

pub(super) fn public_over(
    store: SharedStore,
    limiter: Arc<dyn RateLimiter>,
    settings: PublicSettings,
    deps: &Deps,
) -> Router {
    let PublicSettings { quotas, networks, base_url, proxies, hosts, policy, site } = settings;
    let Deps { clock, random, metrics, cache_bytes, renderer } = deps;
    let service = PageService::new(ServiceParts {
        store,
        limiter,
        renderer: Arc::clone(renderer),
        clock: Arc::clone(clock),
        random: random.clone(),
        quotas,
        networks,
        policy,
        large_bytes: LARGE_PAGES_BUDGET,
    });
    let telemetry = RequestTelemetry {
        metrics: Arc::clone(metrics),
        clock: Arc::clone(clock),
        random: random.clone(),
        trusted_proxies: proxies.networks.clone(),
    };
    let cache = PageCache::new(*cache_bytes, metrics.page_cache.clone());
    let app = Arc::new(AppState::new(service, cache, telemetry, base_url, proxies, site));
    front(Arc::clone(&app), mcp::route(app, &hosts), hosts.cors())
}
