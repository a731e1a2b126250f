//! The whole service behind its real router, in this process, with time, randomness and the store under the test's
//! control.
//!
//! Each request checks the answer, and also the store: a refused request must have written nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use handbill::app::{self, Deps, PublicSettings};
use handbill::http::SiteSettings;
use handbill::mcp::AllowedHosts;
use handbill::telemetry::metrics::Metrics;
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::Quotas;
use handbill_pages::ports::renderer::Renderer;
use handbill_pages::service::{PublishingPolicy, RenderInPlace};
use handbill_pages::values::origin::{Authority, Origin};
use handbill_pages::values::quota::Quota;
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::Slug;
use handbill_store_sqlite::SqliteStore;
use http::header::CONTENT_LENGTH;
use http::{Method, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::clock::{TestClock, TestRng};
use super::document::DOCUMENT;
use super::exchange::{Answer, Request, check_common_rules};
use super::stores::{Calls, WatchedStore};

pub(crate) const BASE_URL: &str = "https://pages.example";

/// How a service differs from one without any settings. A limit of zero is off.
pub(crate) struct Setup {
    /// Without hosts.
    public: PublicSettings,
    mcp_hosts: Vec<Authority>,
    mcp_origins: Vec<Origin>,
    store: Option<Arc<dyn PageStore>>,
    renderer: Arc<dyn Renderer>,
}

fn quota(limit: u32) -> Option<Quota> {
    (limit > 0).then_some(Quota { limit, window: Duration::from_hours(1) })
}

impl Setup {
    /// The limits of the specification (§8), and no trusted proxies.
    pub(crate) fn new() -> Self {
        let public = PublicSettings::open(Origin::parse(BASE_URL).unwrap());
        let (mcp_hosts, mcp_origins) = (Vec::new(), Vec::new());
        let unlimited = Self { public, mcp_hosts, mcp_origins, store: None, renderer: Arc::new(RenderInPlace) };
        unlimited.limits(10, 60).token_limit(60)
    }

    pub(crate) fn unlimited() -> Self {
        Self::new().limits(0, 0).token_limit(0)
    }

    pub(crate) fn limits(mut self, create: u32, edit: u32) -> Self {
        self.public.quotas = Quotas { create: quota(create), edit: quota(edit), ..self.public.quotas };
        self
    }

    pub(crate) fn token_limit(mut self, limit: u32) -> Self {
        self.public.quotas.token = quota(limit);
        self
    }

    pub(crate) fn base_url(mut self, origin: &str) -> Self {
        self.public.base_url = Origin::parse(origin).unwrap();
        self
    }

    pub(crate) fn trusted_proxies(mut self, networks: &[&str]) -> Self {
        self.public.proxies.networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        self
    }

    /// Sets hosts and origins that may call the tools, besides those of the base URL.
    pub(crate) fn mcp_allows(mut self, hosts: &[&str], origins: &[&str]) -> Self {
        self.mcp_hosts = hosts.iter().map(|host| Authority::parse(host).unwrap()).collect();
        self.mcp_origins = origins.iter().map(|origin| Origin::parse(origin).unwrap()).collect();
        self
    }

    pub(crate) fn policy(mut self, policy: PublishingPolicy) -> Self {
        self.public.policy = policy;
        self
    }

    /// The clients of each of these networks share one window.
    pub(crate) fn limit_networks(mut self, networks: &[&str]) -> Self {
        self.public.networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        self
    }

    pub(crate) fn site(mut self, site: SiteSettings) -> Self {
        self.public.site = site;
        self
    }

    pub(crate) fn over_the_store_of(self, app: &TestApp) -> Self {
        self.over(Arc::clone(&app.store) as Arc<dyn PageStore>)
    }

    pub(crate) fn over(self, store: Arc<dyn PageStore>) -> Self {
        Self { store: Some(store), ..self }
    }

    pub(crate) fn rendering_with(self, renderer: Arc<dyn Renderer>) -> Self {
        Self { renderer, ..self }
    }

    pub(crate) fn start(self) -> TestApp {
        let clock = Arc::new(TestClock::new());
        let random = Arc::new(Mutex::new(TestRng::new()));
        let drawn = Arc::clone(&random);
        let inner = self.store.unwrap_or_else(|| Arc::new(SqliteStore::temporary().unwrap()));
        let store = Arc::new(WatchedStore::around(inner));
        let metrics = Arc::new(Metrics::default());
        let deps = Deps {
            clock: Arc::clone(&clock) as SharedClock,
            random: Random::Controlled(Arc::new(move |bytes: &mut [u8]| drawn.lock().unwrap().fill(bytes))),
            metrics: Arc::clone(&metrics),
            renderer: self.renderer,
            ..Deps::system()
        };
        let own = [&self.public.base_url].into_iter().chain(&self.public.site.mcp_base_url);
        let hosts = AllowedHosts::new(own, self.mcp_hosts, self.mcp_origins);
        let public = PublicSettings { hosts, ..self.public };
        let front = app::public(Arc::clone(&store) as Arc<dyn PageStore>, public, &deps);
        TestApp { clock, random, store, metrics, front, requests: Arc::default() }
    }

    pub(crate) async fn start_with_page(self) -> (TestApp, Published) {
        let app = self.start();
        let page = app.published().await;
        (app, page)
    }
}

/// A service under test, and the parts of it that a test controls. Clones are the same service.
#[derive(Clone)]
pub(crate) struct TestApp {
    pub(crate) clock: Arc<TestClock>,
    random: Arc<Mutex<TestRng>>,
    pub(crate) store: Arc<WatchedStore>,
    pub(crate) metrics: Arc<Metrics>,
    front: Router,
    requests: Arc<Requests>,
}

#[derive(Default)]
struct Requests {
    sent: AtomicUsize,
    answered: AtomicUsize,
}

impl TestApp {
    pub(crate) fn new() -> Self {
        Setup::new().start()
    }

    pub(crate) async fn with_page() -> (Self, Published) {
        Setup::new().start_with_page().await
    }

    pub(crate) fn random(&self) -> MutexGuard<'_, TestRng> {
        self.random.lock().unwrap()
    }

    /// The service itself, to be put behind a listener.
    pub(crate) fn front(&self) -> Router {
        self.front.clone()
    }

    /// The page as the store holds it, read without any rule of the service.
    pub(crate) async fn stored(&self, slug: &str) -> Option<Record> {
        self.store.lookup(&Slug::parse(slug).unwrap()).await.unwrap()
    }

    pub(crate) fn cached_bytes(&self) -> usize {
        let scrape = self.metrics.exposition();
        let line = scrape.lines().find_map(|line| line.strip_prefix("handbill_page_cache_bytes "));
        line.unwrap().parse().unwrap()
    }

    /// Sends `request`, and checks the answer against the rules for all answers and against the OpenAPI document. A
    /// test that sees an undocumented answer fails.
    pub(crate) async fn send(&self, request: Request) -> Answer {
        let (method, path) = (request.method.clone(), request.path().to_owned());
        let answer = self.asked(request).await;
        check_common_rules(&method, &path, &answer);
        DOCUMENT.check(method.as_str(), &path, &answer.decoded());
        answer
    }

    /// The answer to `request`, which OpenAPI may not describe. A refused request must have written nothing.
    pub(crate) async fn asked(&self, request: Request) -> Answer {
        let (alone, before, request) = (self.requests.begin(), self.writes(), request.into_http());
        let is_head = request.method() == Method::HEAD;
        let Ok(response) = self.front().oneshot(request).await;
        let (mut parts, body) = response.into_parts();
        // A listener sends the length of a body, and no body in answer to `HEAD`.
        if let Some(length) = body.size_hint().exact().filter(|_| parts.status != StatusCode::NOT_MODIFIED) {
            parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
        }
        let body = if is_head { Bytes::new() } else { body.collect().await.unwrap().to_bytes() };
        let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, body };
        // Only the store knows that a key is in use, so it was asked to insert.
        let asked_the_store = answer.status == 400 && answer.text().contains("key_in_use");
        if self.requests.ends(alone) && (400..500).contains(&answer.status) && !asked_the_store {
            assert_eq!(self.writes(), before, "it was refused, and written: {answer:?}");
        }
        answer
    }

    fn writes(&self) -> (usize, usize) {
        let Calls { inserts, swaps, .. } = self.store.calls();
        (inserts, swaps)
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.send(Request::get(target)).await
    }

    pub(crate) async fn create(&self, body: impl Into<Body>) -> Answer {
        self.send(Request::create(body)).await
    }

    pub(crate) async fn publish(&self, title: &str, content: &str) -> Published {
        let answer = self.create(json!({"title": title, "content": content}).to_string()).await;
        answer.expect_status(201);
        Published { slug: answer.field("slug"), key: answer.field("edit_key"), etag: answer.header("etag").to_owned() }
    }

    pub(crate) async fn published(&self) -> Published {
        self.publish("Hello, world", "A *first* page.").await
    }

    pub(crate) async fn update(&self, page: &Published, fields: Value) -> Answer {
        self.send(Request::update(&page.slug, fields.to_string()).key(&page.key)).await
    }

    pub(crate) async fn delete(&self, page: &Published) -> Answer {
        self.send(Request::delete(&page.slug).key(&page.key)).await
    }

    pub(crate) async fn deleted(&self) -> Published {
        let page = self.published().await;
        self.delete(&page).await.expect_status(204);
        page
    }

    pub(crate) async fn read(&self, slug: &str) -> Answer {
        self.get(&format!("/api/pages/{slug}")).await
    }

    pub(crate) async fn page(&self, slug: &str) -> Value {
        self.read(slug).await.expect_status(200).json()
    }
}

impl Requests {
    /// Counts a request. If no other request is running, returns the number of answers that there will be after this
    /// one's.
    fn begin(&self) -> Option<usize> {
        let sent = self.sent.fetch_add(1, Ordering::SeqCst);
        (self.answered.load(Ordering::SeqCst) == sent).then_some(sent + 1)
    }

    /// Counts an answer. `alone` is the result of [`Requests::begin`] for its request. Returns whether no other request
    /// ran at the same time.
    fn ends(&self, alone: Option<usize>) -> bool {
        let answered = self.answered.fetch_add(1, Ordering::SeqCst) + 1;
        alone == Some(answered) && self.sent.load(Ordering::SeqCst) == answered
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) slug: String,
    pub(crate) key: String,
    pub(crate) etag: String,
}

impl Published {
    /// The page's representations: the address of each, and an `Accept` that gets it there.
    pub(crate) fn representations(&self) -> [(String, &'static str); 4] {
        let Self { slug, .. } = self;
        [
            (format!("/api/pages/{slug}"), "application/json"),
            (format!("/{slug}"), "text/html"),
            (format!("/{slug}"), "text/markdown"),
            (format!("/{slug}.md"), "*/*"),
        ]
    }
}
