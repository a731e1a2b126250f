//! The service behind its load balancer, by the same names as `tests/support/app.rs` has for one process.
//!
//! Each [`TestApp`] is a client, or several, that nobody else is, with quotas of its own. [`TestApp::send`] holds every
//! answer against the rules for all answers and against the OpenAPI document.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handbill::domain::client::Peer;

use super::scrape::Visit;
use super::services::{Limits, service};
use crate::connection::{connect_from, exchange};
use crate::support::document::DOCUMENT;
use crate::support::exchange::{Answer, Request, check_common_rules};

/// Where the service under test believes that it is served.
pub(crate) const BASE_URL: &str = "https://pages.example";

/// When an answer counts as not coming. Nothing depends on it being short.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);

/// How a service under test differs from one without any settings.
pub(crate) struct Setup {
    limits: Limits,
}

impl Setup {
    /// The limits of the specification (§8).
    pub(crate) fn new() -> Self {
        Self { limits: Limits { create: 10, edit: 60, token: 60 } }
    }

    /// Limits that are switched off, for tests of something else.
    pub(crate) fn unlimited() -> Self {
        Self::new().limits(0, 0).token_limit(0)
    }

    #[must_use]
    pub(crate) fn limits(mut self, create: u32, edit: u32) -> Self {
        self.limits = Limits { create, edit, ..self.limits };
        self
    }

    #[must_use]
    pub(crate) fn token_limit(mut self, token: u32) -> Self {
        self.limits.token = token;
        self
    }

    /// Another replica over the store of `app`. All replicas here are over one store, and each request goes to the next.
    #[must_use]
    pub(crate) fn over_the_store_of(self, _app: &TestApp) -> Self {
        self
    }

    /// A client of the service with these settings, which is started with its first request.
    pub(crate) fn start(self) -> TestApp {
        TestApp { limits: self.limits, clients: Arc::default(), _visit: Visit::to(self.limits) }
    }
}

/// A service under test. Clones are the same service.
#[derive(Clone)]
pub(crate) struct TestApp {
    limits: Limits,
    /// Which address on this machine stands for which peer.
    clients: Arc<Mutex<HashMap<IpAddr, Ipv4Addr>>>,
    /// After the last of them the metrics are looked at.
    _visit: Arc<Visit>,
}

impl TestApp {
    /// A service without any settings.
    pub(crate) fn new() -> Self {
        Setup::new().start()
    }

    /// Sends `request` and reads the answer to its end.
    pub(crate) async fn send(&self, request: Request) -> Answer {
        let (method, path) = (request.method.clone(), request.path().to_owned());
        let mut request = request.into_http();
        let Peer(peer) = request.extensions_mut().remove().expect("a request has a peer");
        let client = self.client(peer.ip());
        let balancer = service(self.limits).await.balancer;
        let whole = async { exchange(&mut connect_from(client, balancer).await?, request).await };
        let answered = tokio::time::timeout(TEST_TIMEOUT, whole).await.expect("it is answered");
        let (parts, body) = answered.unwrap_or_else(|error| panic!("{method} {path}: {error}")).into_parts();
        let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, body };
        check_common_rules(&method, &path, &answer);
        DOCUMENT.check(method.as_str(), &path, &answer);
        answer
    }

    /// An address that is `peer` to this test alone.
    fn client(&self, peer: IpAddr) -> Ipv4Addr {
        static DRAWN: AtomicU32 = AtomicU32::new(0);
        // From 127.1.0.0 on; database nodes begin at 127.16, and the machine's own address is the load balancer's.
        const FIRST: u32 = Ipv4Addr::new(127, 1, 0, 0).to_bits();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        *clients.entry(peer).or_insert_with(|| Ipv4Addr::from_bits(FIRST + DRAWN.fetch_add(1, Ordering::Relaxed)))
    }
}
