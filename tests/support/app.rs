//! The service under test, whichever it is.
//!
//! Each test program names its [`Target`]: `it` a service in its own process, `services` three replicas behind a load
//! balancer.

use std::sync::Arc;

use async_trait::async_trait;

use super::document::DOCUMENT;
use super::exchange::{Answer, Request, check_common_rules};
use crate::target;

/// The base URL of the service under test.
pub(crate) const BASE_URL: &str = "https://pages.example";

/// The limits of a service. Zero switches a limit off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Limits {
    pub(crate) create: u32,
    pub(crate) edit: u32,
    pub(crate) token: u32,
}

impl Limits {
    /// The limits of the specification (§8).
    pub(crate) const SPECIFIED: Self = Self { create: 10, edit: 60, token: 60 };

    /// Limits that are switched off, for tests of something else.
    pub(crate) const OFF: Self = Self { create: 0, edit: 0, token: 0 };
}

/// A service that can be asked.
#[async_trait]
pub(crate) trait Target: Send + Sync {
    /// Sends `request` and reads the answer to its end.
    async fn answer(&self, request: Request) -> Answer;

    /// A replica over the same store, with `limits`.
    fn replica(&self, limits: Limits) -> Arc<dyn Target>;
}

/// How a service under test differs from one without any settings: its limits, and `S`, which only one kind of service
/// has.
pub(crate) struct SetupOf<S> {
    pub(crate) limits: Limits,
    pub(crate) settings: S,
}

impl<S: Default> SetupOf<S> {
    /// The limits of the specification (§8).
    pub(crate) fn new() -> Self {
        Self { limits: Limits::SPECIFIED, settings: S::default() }
    }

    /// Limits that are switched off, for tests of something else.
    pub(crate) fn unlimited() -> Self {
        Self { limits: Limits::OFF, ..Self::new() }
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
}

/// How a service of any kind differs from one without any settings.
pub(crate) type Setup = SetupOf<Beside>;

/// A service beside which the new one is a replica.
#[derive(Default)]
pub(crate) struct Beside(Option<Arc<dyn Target>>);

impl Setup {
    /// Another replica over the store of `app`.
    #[must_use]
    pub(crate) fn over_the_store_of(self, app: &TestApp) -> Self {
        Self { settings: Beside(Some(Arc::clone(&app.target))), ..self }
    }

    pub(crate) fn start(self) -> TestApp {
        let Beside(other) = self.settings;
        TestApp::asking(other.map_or_else(|| target(self.limits), |other| other.replica(self.limits)))
    }
}

/// A service under test. Clones are the same service.
#[derive(Clone)]
pub(crate) struct TestApp {
    target: Arc<dyn Target>,
}

impl TestApp {
    /// A service without any settings.
    pub(crate) fn new() -> Self {
        Setup::new().start()
    }

    /// The service `target`.
    pub(crate) fn asking(target: Arc<dyn Target>) -> Self {
        Self { target }
    }

    /// Sends `request`, and checks the answer against the rules for all answers and against the OpenAPI document. A
    /// test that sees an undocumented answer fails.
    pub(crate) async fn send(&self, request: Request) -> Answer {
        let (method, path) = (request.method.clone(), request.path().to_owned());
        let answer = self.target.answer(request).await;
        check_common_rules(&method, &path, &answer);
        DOCUMENT.check(method.as_str(), &path, &answer.decoded());
        answer
    }
}
