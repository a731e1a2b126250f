//! The whole service behind its real router, in this process, with time, chance and the store in the test's hand.
//!
//! [`TestApp::send`] holds every answer against the rules for all answers and against the OpenAPI document, so any test
//! that sees an undocumented answer fails; and the store against the answer: what was refused has written nothing.
//! `tests/replicas` has another of the same name, whose requests go through a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use handbill::api::request::client_addr::TrustedProxies;
use handbill::app::{Surroundings, public_router};
use handbill::backends::redb::RedbStore;
use handbill::domain::authority::Authority;
use handbill::domain::client::ForwardedHeader;
use handbill::domain::origin::Origin;
use handbill::domain::quota::Quota;
use handbill::domain::slug::Slug;
use handbill::mcp::HostCheck;
use handbill::ports::clock::SharedClock;
use handbill::ports::page_store::{Lookup, PageStore};
use handbill::ports::random::SharedEntropy;
use handbill::ports::rate_limiter::Quotas;
use handbill::telemetry::metrics::Metrics;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::document::DOCUMENT;
use super::entropy::TestEntropy;
use super::exchange::{Answer, Request, check_common_rules};
use super::skew::SkewedClock;
use super::stores::{Calls, WatchedStore};

/// Where the service under test believes that it is served.
pub(crate) const BASE_URL: &str = "https://pages.example";

/// How a service under test differs from one without any settings.
pub(crate) struct Setup {
    create_limit: u32,
    edit_limit: u32,
    token_limit: u32,
    window: Duration,
    base_url: String,
    proxies: TrustedProxies,
    mcp_hosts: Vec<Authority>,
    mcp_origins: Vec<Origin>,
    store: Option<Arc<dyn PageStore>>,
}

impl Setup {
    /// The limits of the specification (§8), and no trusted proxies.
    pub(crate) fn new() -> Self {
        Self {
            create_limit: 10,
            edit_limit: 60,
            token_limit: 60,
            window: Duration::from_hours(1),
            base_url: BASE_URL.to_owned(),
            proxies: TrustedProxies { networks: Vec::new(), header: ForwardedHeader::XForwardedFor },
            mcp_hosts: Vec::new(),
            mcp_origins: Vec::new(),
            store: None,
        }
    }

    /// Limits that are switched off, for tests of something else.
    pub(crate) fn unlimited() -> Self {
        Self::new().limits(0, 0).token_limit(0)
    }

    #[must_use]
    pub(crate) fn limits(self, create_limit: u32, edit_limit: u32) -> Self {
        Self { create_limit, edit_limit, ..self }
    }

    #[must_use]
    pub(crate) fn token_limit(self, token_limit: u32) -> Self {
        Self { token_limit, ..self }
    }

    #[must_use]
    pub(crate) fn window(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    #[must_use]
    pub(crate) fn base_url(self, origin: &str) -> Self {
        Self { base_url: origin.to_owned(), ..self }
    }

    #[must_use]
    pub(crate) fn trusted_proxies(self, networks: &[&str], header: ForwardedHeader) -> Self {
        let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        Self { proxies: TrustedProxies { networks, header }, ..self }
    }

    /// Hosts and origins that the tools are called by, besides those of the base URL.
    #[must_use]
    pub(crate) fn mcp_allows(self, hosts: &[&str], origins: &[&str]) -> Self {
        let mcp_hosts = hosts.iter().map(|host| Authority::parse(host).unwrap()).collect();
        let mcp_origins = origins.iter().map(|origin| Origin::parse(origin).unwrap()).collect();
        Self { mcp_hosts, mcp_origins, ..self }
    }

    /// Another replica over the store of `app`.
    #[must_use]
    pub(crate) fn over_the_store_of(self, app: &TestApp) -> Self {
        Self { store: Some(Arc::clone(&app.store) as Arc<dyn PageStore>), ..self }
    }

    pub(crate) fn start(self) -> TestApp {
        let clock = Arc::new(SkewedClock::new());
        let entropy = Arc::new(TestEntropy::new());
        let inner = self.store.unwrap_or_else(|| Arc::new(RedbStore::in_memory().unwrap()));
        let store = Arc::new(WatchedStore::around(inner));
        let around = Surroundings {
            clock: Arc::clone(&clock) as SharedClock,
            entropy: Arc::clone(&entropy) as SharedEntropy,
            metrics: Arc::new(Metrics::new()),
        };
        let quota = |limit| (limit > 0).then_some(Quota { limit, window: self.window });
        let base_url = Origin::parse(&self.base_url).unwrap();
        let allowed = HostCheck::new(&base_url, self.mcp_hosts, self.mcp_origins);
        let metrics = Arc::clone(&around.metrics);
        let router = public_router(
            Arc::clone(&store) as Arc<dyn PageStore>,
            Quotas { create: quota(self.create_limit), edit: quota(self.edit_limit), token: quota(self.token_limit) },
            base_url,
            self.proxies,
            allowed,
            &around,
        );
        TestApp { clock, entropy, store, metrics, router, sent: Arc::default(), answered: Arc::default() }
    }
}

/// A service under test. Clones are the same service.
#[derive(Clone)]
pub(crate) struct TestApp {
    pub(crate) clock: Arc<SkewedClock>,
    pub(crate) entropy: Arc<TestEntropy>,
    pub(crate) store: Arc<WatchedStore>,
    pub(crate) metrics: Arc<Metrics>,
    router: Router,
    sent: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
}

impl TestApp {
    /// A service without any settings.
    pub(crate) fn new() -> Self {
        Setup::new().start()
    }

    /// Sends `request` and reads the answer to its end.
    pub(crate) async fn send(&self, request: Request) -> Answer {
        let (method, path) = (request.method.clone(), request.path().to_owned());
        let (alone, before) = (self.begin(), self.writes());
        let Ok(response) = self.router.clone().oneshot(request.into_http()).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, body };
        check_common_rules(&method, &path, &answer);
        DOCUMENT.check(method.as_str(), &path, &answer);
        if self.ends(alone) && (400..500).contains(&answer.status) {
            assert_eq!(self.writes(), before, "it was refused, and written: {answer:?}");
        }
        answer
    }

    /// How many bytes each piece of the answer to `request` has.
    pub(crate) async fn pieces(&self, request: Request) -> Vec<usize> {
        let Ok(response) = self.router.clone().oneshot(request.into_http()).await;
        let mut body = response.into_body();
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.unwrap().into_data().map_or(0, |data| data.len()));
        }
        pieces
    }

    /// Counts a request, and answers how many will have been answered after it if no other runs beside it.
    fn begin(&self) -> Option<usize> {
        let sent = self.sent.fetch_add(1, Ordering::SeqCst);
        (self.answered.load(Ordering::SeqCst) == sent).then_some(sent + 1)
    }

    /// Counts an answer, and says whether no other request ran beside its own, which [`TestApp::begin`] began as `alone`.
    fn ends(&self, alone: Option<usize>) -> bool {
        let answered = self.answered.fetch_add(1, Ordering::SeqCst) + 1;
        alone == Some(answered) && self.sent.load(Ordering::SeqCst) == answered
    }

    /// What was asked of the store that would change it.
    fn writes(&self) -> (usize, usize) {
        let Calls { inserts, swaps, .. } = self.store.calls();
        (inserts, swaps)
    }

    /// What the store holds, past every rule of the service.
    pub(crate) async fn stored(&self, slug: &str) -> Lookup {
        self.store.lookup(&Slug::parse(slug).unwrap()).await.unwrap()
    }
}
