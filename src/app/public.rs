//! The public routes over a store and a limiter, as a process and a test have them.

use std::sync::Arc;

use axum::Router;

use super::backends::Backends;
use crate::http::discovery::skill;
use crate::http::request::client_addr::TrustedProxies;
use crate::http::{AppState, PageCache, SiteSettings, front};
use crate::mcp::{self, AllowedHosts, Mcp};
use crate::settings::Settings;
use crate::telemetry::http::RequestTelemetry;
use crate::telemetry::metrics::Metrics;
use handbill_pages::ports::clock::{SharedClock, SystemClock};
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::Quotas;
use handbill_pages::ports::renderer::Renderer;
use handbill_pages::service::{PageService, PublishingPolicy, RenderThreads, ServiceParts};
use handbill_pages::values::client::SharedNetwork;
use handbill_pages::values::origin::Origin;

/// Bytes of pages over 64 KiB in use: five of the largest, which count twice.
const LARGE_PAGES_BUDGET: usize = 8 << 20;

/// What differs between a process and a test.
pub struct Deps {
    pub clock: SharedClock,
    pub random: Random,
    pub metrics: Arc<Metrics>,
    /// Bytes of pages kept in memory.
    pub cache_bytes: u64,
    pub renderer: Arc<dyn Renderer>,
}

impl Deps {
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            metrics: Arc::new(Metrics::new()),
            cache_bytes: 64 << 20,
            renderer: Arc::new(RenderThreads::default()),
        }
    }
}

/// The default allows everything.
#[derive(Default)]
pub struct Publishing {
    pub policy: PublishingPolicy,
    pub site: SiteSettings,
}

impl Publishing {
    pub(super) fn of(settings: &Settings, policy: &PublishingPolicy) -> Self {
        let (http, moderation) = (&settings.http, &settings.moderation);
        let site = SiteSettings {
            abuse_contact: moderation.contacts.abuse_contact.clone(),
            noindex_all: moderation.noindex_all,
            links: http.site_links.clone(),
            mcp_base_url: http.mcp_base_url.clone(),
            edge_max_age: settings.edge.max_age(),
        };
        Self { policy: policy.clone(), site }
    }
}

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
    pub publishing: Publishing,
}

/// The public routes with a limiter in this process.
pub fn public(store: Arc<dyn PageStore>, settings: PublicSettings, deps: &Deps) -> Router {
    public_over(Backends::in_process(store, deps), settings, deps)
}

pub(super) fn public_over(backends: Backends, settings: PublicSettings, deps: &Deps) -> Router {
    let PublicSettings { quotas, networks, base_url, proxies, hosts, publishing } = settings;
    let Publishing { policy, site } = publishing;
    let Deps { clock, random, metrics, cache_bytes, renderer } = deps;
    let service = PageService::new(ServiceParts {
        calls: backends.calls,
        store: backends.store,
        limiter: backends.limiter,
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
    let tools = Mcp {
        skill: skill::markdown(&base_url, &site.mcp_url(&base_url)),
        service: service.clone(),
        base_url: base_url.clone(),
        proxies: proxies.clone(),
        metrics: Arc::clone(metrics),
    };
    let cache = PageCache::new(*cache_bytes, metrics.page_cache.clone());
    let app = AppState::new(service, cache, base_url, proxies, site);
    front(app, mcp::route(tools, &hosts), hosts.cors(), telemetry)
}
