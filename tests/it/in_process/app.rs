//! The whole service behind its real router, in this process, with time, randomness and the store under the test's
//! control.
//!
//! Each request checks the answer, and also the store: a refused request must have written nothing.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use handbill::app::{self, Deps, PublicSettings, Publishing};
use handbill::http::request::client_addr::TrustedProxies;
use handbill::http::{Front, SiteSettings};
use handbill::mcp::AllowedHosts;
use handbill::telemetry::metrics::Metrics;
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::page_store::{Lookup, PageStore};
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::Quotas;
use handbill_pages::ports::renderer::Renderer;
use handbill_pages::service::PublishingPolicy;
use handbill_pages::service::RenderInPlace;
use handbill_pages::values::network_limits::SharedNetwork;
use handbill_pages::values::origin::{Authority, Origin};
use handbill_pages::values::quota::Quota;
use handbill_pages::values::slug::Slug;
use handbill_store_sqlite::SqliteStore;
use http::header::CONTENT_LENGTH;
use http::{Method, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::clock::TestClock;
use super::random::TestRng;
use super::stores::{Calls, WatchedStore};
use crate::support::app as support;
use crate::support::app::{BASE_URL, Limits, SetupOf, Target};
use crate::support::exchange::{Answer, Request};

/// How a service in this process differs from one without any settings.
pub(crate) type Setup = SetupOf<Settings>;

/// The settings of a test besides the limits.
pub(crate) struct Settings {
    base_url: String,
    proxies: TrustedProxies,
    mcp_hosts: Vec<Authority>,
    mcp_origins: Vec<Origin>,
    store: Option<Arc<dyn PageStore>>,
    renderer: Arc<dyn Renderer>,
    publishing: Publishing,
    networks: Vec<SharedNetwork>,
}

impl Default for Settings {
    /// No trusted proxies.
    fn default() -> Self {
        Self {
            base_url: BASE_URL.to_owned(),
            proxies: TrustedProxies { networks: Vec::new() },
            mcp_hosts: Vec::new(),
            mcp_origins: Vec::new(),
            store: None,
            renderer: Arc::new(RenderInPlace),
            publishing: Publishing::default(),
            networks: Vec::new(),
        }
    }
}

impl Setup {
    #[must_use]
    pub(crate) fn base_url(mut self, origin: &str) -> Self {
        origin.clone_into(&mut self.settings.base_url);
        self
    }

    #[must_use]
    pub(crate) fn trusted_proxies(mut self, networks: &[&str]) -> Self {
        let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        self.settings.proxies = TrustedProxies { networks };
        self
    }

    /// Sets hosts and origins that may call the tools, besides those of the base URL.
    #[must_use]
    pub(crate) fn mcp_allows(mut self, hosts: &[&str], origins: &[&str]) -> Self {
        self.settings.mcp_hosts = hosts.iter().map(|host| Authority::parse(host).unwrap()).collect();
        self.settings.mcp_origins = origins.iter().map(|origin| Origin::parse(origin).unwrap()).collect();
        self
    }

    /// Publishes only what `policy` allows.
    #[must_use]
    pub(crate) fn policy(mut self, policy: PublishingPolicy) -> Self {
        self.settings.publishing.policy = policy;
        self
    }

    /// The clients of each of these networks share one window.
    #[must_use]
    pub(crate) fn limit_networks(mut self, networks: &[&str]) -> Self {
        self.settings.networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        self
    }

    /// The operators' contacts and wishes.
    #[must_use]
    pub(crate) fn site(mut self, site: SiteSettings) -> Self {
        self.settings.publishing.site = site;
        self
    }

    /// Another replica over the store of `app`.
    #[must_use]
    pub(crate) fn over_the_store_of(self, app: &TestApp) -> Self {
        self.over(Arc::clone(&app.store) as Arc<dyn PageStore>)
    }

    /// A service over `store`.
    #[must_use]
    pub(crate) fn over(mut self, store: Arc<dyn PageStore>) -> Self {
        self.settings.store = Some(store);
        self
    }

    /// A service that renders with `renderer`.
    #[must_use]
    pub(crate) fn rendering_with(mut self, renderer: Arc<dyn Renderer>) -> Self {
        self.settings.renderer = renderer;
        self
    }

    pub(crate) fn start(self) -> TestApp {
        let Self { limits, settings } = self;
        let clock = Arc::new(TestClock::new());
        let random = Arc::new(Mutex::new(TestRng::new()));
        let drawn = Arc::clone(&random);
        let inner = settings.store.unwrap_or_else(|| Arc::new(SqliteStore::temporary().unwrap()));
        let store = Arc::new(WatchedStore::around(inner));
        let deps = Deps {
            clock: Arc::clone(&clock) as SharedClock,
            random: Random::Controlled(Arc::new(move |bytes: &mut [u8]| drawn.lock().unwrap().fill(bytes))),
            metrics: Arc::new(Metrics::new()),
            renderer: settings.renderer,
            ..Deps::system()
        };
        let quota = |limit| (limit > 0).then_some(Quota { limit, window: Duration::from_hours(1) });
        let base_url = Origin::parse(&settings.base_url).unwrap();
        let metrics = Arc::clone(&deps.metrics);
        let public = PublicSettings {
            quotas: Quotas { create: quota(limits.create), edit: quota(limits.edit), token: quota(limits.token) },
            networks: settings.networks,
            hosts: AllowedHosts::new(
                [&base_url].into_iter().chain(&settings.publishing.site.mcp_base_url),
                settings.mcp_hosts,
                settings.mcp_origins,
            ),
            base_url,
            proxies: settings.proxies,
            publishing: settings.publishing,
        };
        let front = app::public(Arc::clone(&store) as Arc<dyn PageStore>, public, &deps);
        let service = Arc::new(InProcess {
            store: Arc::clone(&store),
            front,
            sent: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
        });
        let app = support::TestApp::asking(Arc::clone(&service) as Arc<dyn Target>);
        TestApp { clock, random, store, metrics, app, service }
    }
}

/// A service under test, and the parts of it that a test controls. Clones are the same service.
#[derive(Clone)]
pub(crate) struct TestApp {
    pub(crate) clock: Arc<TestClock>,
    random: Arc<Mutex<TestRng>>,
    pub(crate) store: Arc<WatchedStore>,
    pub(crate) metrics: Arc<Metrics>,
    app: support::TestApp,
    service: Arc<InProcess>,
}

impl TestApp {
    /// The numbers that the service draws.
    pub(crate) fn random(&self) -> MutexGuard<'_, TestRng> {
        self.random.lock().unwrap()
    }

    /// A service without any settings.
    pub(crate) fn new() -> Self {
        Setup::new().start()
    }

    /// The service itself, to be put behind a listener.
    pub(crate) fn front(&self) -> Front {
        self.service.front.clone()
    }

    /// The answer to `request`, which OpenAPI does not describe.
    pub(crate) async fn asked(&self, request: Request) -> Answer {
        self.service.answer(request).await
    }

    /// The page as the store holds it, read without any rule of the service.
    pub(crate) async fn stored(&self, slug: &str) -> Lookup {
        self.store.lookup(&Slug::parse(slug).unwrap()).await.unwrap()
    }
}

impl Deref for TestApp {
    type Target = support::TestApp;

    fn deref(&self) -> &support::TestApp {
        &self.app
    }
}

/// The service of `it`: a router in this process.
struct InProcess {
    store: Arc<WatchedStore>,
    front: Front,
    sent: AtomicUsize,
    answered: AtomicUsize,
}

#[async_trait]
impl Target for InProcess {
    /// A refused request must have written nothing.
    async fn answer(&self, request: Request) -> Answer {
        let (alone, before, request) = (self.begin(), self.writes(), request.into_http());
        let is_head = request.method() == Method::HEAD;
        let Ok(response) = self.front.clone().oneshot(request).await;
        let (mut parts, body) = response.into_parts();
        // A listener sends the length of a body, and no body in answer to `HEAD`.
        if let Some(length) = body.size_hint().exact().filter(|_| parts.status != StatusCode::NOT_MODIFIED) {
            parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
        }
        let body = if is_head { Bytes::new() } else { body.collect().await.unwrap().to_bytes() };
        let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, body };
        // Only the store knows that a key is in use, so it was asked to insert.
        let asked_the_store = answer.status == 400 && answer.text().contains("key_in_use");
        if self.ends(alone) && (400..500).contains(&answer.status) && !asked_the_store {
            assert_eq!(self.writes(), before, "it was refused, and written: {answer:?}");
        }
        answer
    }

    fn replica(&self, limits: Limits) -> Arc<dyn Target> {
        Setup { limits, ..Setup::new() }.over(Arc::clone(&self.store) as Arc<dyn PageStore>).start().service
    }
}

impl InProcess {
    /// Counts a request. If no other request is running, returns the number of answers that there will be after this
    /// one's.
    fn begin(&self) -> Option<usize> {
        let sent = self.sent.fetch_add(1, Ordering::SeqCst);
        (self.answered.load(Ordering::SeqCst) == sent).then_some(sent + 1)
    }

    /// Counts an answer. `alone` is the result of [`InProcess::begin`] for its request. Returns whether no other
    /// request ran at the same time.
    fn ends(&self, alone: Option<usize>) -> bool {
        let answered = self.answered.fetch_add(1, Ordering::SeqCst) + 1;
        alone == Some(answered) && self.sent.load(Ordering::SeqCst) == answered
    }

    /// The calls that would change the store.
    fn writes(&self) -> (usize, usize) {
        let Calls { inserts, swaps, .. } = self.store.calls();
        (inserts, swaps)
    }
}

/// The target of the specification's tests: a service in this process with these limits.
/// The bytes of all that is ready to be sent.
pub(crate) fn ready_bytes(app: &TestApp) -> usize {
    let scrape = app.metrics.exposition();
    let line = scrape.lines().find_map(|line| line.strip_prefix("handbill_page_cache_bytes "));
    line.unwrap().parse().unwrap()
}

pub(crate) fn target(limits: Limits) -> Arc<dyn Target> {
    Setup { limits, ..Setup::new() }.start().service
}
