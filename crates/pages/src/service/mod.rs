//! The service's rules: the operations on pages and the order of their checks. This module knows no transport and no
//! status codes.
//!
//! # The order of checks
//!
//! The first check that fails decides the answer. REST and MCP both call this module, so they cannot disagree.
//!
//! | step | create | read | update | delete | token |
//! |---|---|---|---|---|---|
//! | 1 | body | slug's grammar | slug's grammar | slug's grammar | rate limit |
//! | 2 | rate limit | existence | rate limit | rate limit | form |
//! | 3 | | | existence | existence | grant |
//! | 4 | | | credential | credential | client: existence and credential in one |
//! | 5 | | | body | body, which must be empty | scope |
//! | 6 | | | precondition | precondition | |
//!
//! A preview has the steps of a create, with a limit of its own. A title that must be found in the text is looked for
//! after the limit, because that costs as much as rendering the text.
//!
//! After its rate limit a create is refused if its text has no title, then while operators have paused creates, then if its text or links are on the
//! blocklist. An update with a text is refused by the blocklist after its
//! body was checked. So each of these counts as an attempt, and the blocklist cannot be probed for free.
//!
//! The limiter also reserves the slug of a create that it admits, where there is a Redis. A reservation decides nothing.
//!
//! An invalid create or preview spends no quota. Every update, delete and token request spends quota, which also limits the
//! guessing of keys. The one exception is an update or delete whose slug does not fit the grammar: such a request is
//! refused before the limiter is asked.

mod calls;
mod create;
mod delete;
mod error;
mod operators;
mod page_cache;
mod policy;
mod preview;
mod read;
mod read_budget;
mod rendering;
mod request;
mod shared_reads;
mod store_budget;
mod token;
mod update;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::ports::clock::SharedClock;
use crate::ports::page_store::Lookup;
use crate::ports::random::Random;
use crate::ports::rate_limiter::{Attempt, LimitKind, Quotas, RateLimiter};
use crate::ports::renderer::{Checks, Made, Purpose, RenderError, Renderer};
use crate::values::client::Client;
use crate::values::content::Content;
use crate::values::network_limits::{SharedNetwork, windows};
use crate::values::page::{Page, PageHead};
use crate::values::quota::Decision;
use crate::values::reservation::{Reservation, Reserved};
use crate::values::slug::Slug;
use crate::values::slug_secret::SlugSecret;

pub use calls::{CALL, CallLabels, CallMetrics, DecisionLabels, Durations, SharedStore, TRACES, durations, seconds};
pub use create::Created;
pub use error::{BodyError, BodyReadError, FormError, ServiceError, TokenError};
pub use operators::{ActOutcome, Found, Operators};
pub use page_cache::{FormNumber, Kept, PageCache, PageCacheMetrics, PageRead};
pub use policy::PublishingPolicy;
pub use preview::Preview;
pub use read::FoundPage;
use read_budget::ReadBudget;
pub use rendering::{RenderInPlace, RenderThreads};
pub use request::{Body, Credential, PageFields, Precondition, States};
pub use store_budget::STORE_BUDGET;
use store_budget::StoreBudget;
pub use token::{TokenClient, TokenForm};

/// Longest time of one operation, including waits for stores. After this time the outcome is unknown to the caller.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Longest pause before a lost compare-and-set is tried again. Each pause is a random part of this time.
const LONGEST_JITTER: Duration = Duration::from_millis(25);

pub struct ServiceParts {
    pub store: SharedStore,
    pub limiter: Arc<dyn RateLimiter>,
    pub renderer: Arc<dyn Renderer>,
    pub clock: SharedClock,
    pub random: Random,
    pub quotas: Quotas,
    /// The networks whose clients share one larger window.
    pub networks: Vec<SharedNetwork>,
    pub policy: PublishingPolicy,
    /// Memory for large pages that are read or changed.
    pub large_bytes: usize,
    /// Keeps pages that are ready to be sent.
    pub pages: PageCache,
}

/// The service over its backends. Cheap to clone.
#[derive(Clone)]
pub struct PageService {
    store: SharedStore,
    limiter: Arc<dyn RateLimiter>,
    clock: SharedClock,
    random: Random,
    quotas: Quotas,
    networks: Arc<[SharedNetwork]>,
    renderer: Arc<dyn Renderer>,
    large_reads: ReadBudget,
    pages: PageCache,
    policy: PublishingPolicy,
    /// The secret for slugs, once it was needed. It never changes.
    slug_secret: Arc<OnceCell<SlugSecret>>,
}

/// The result of an operation that has a rate limit, with the state of that limit.
#[derive(Debug)]
pub struct Limited<T> {
    /// The result, or the first check that failed.
    pub outcome: Result<T, ServiceError>,
    /// The limit and the limiter's decision; `None` if the limiter was not asked or the limit is off.
    pub quota: Option<(LimitKind, Decision)>,
}

impl<T> Limited<T> {
    /// A failure before the limiter was asked.
    fn rejected_before_limit(error: ServiceError) -> Self {
        Self { outcome: Err(error), quota: None }
    }
}

impl PageService {
    pub fn new(parts: ServiceParts) -> Self {
        let ServiceParts { store, limiter, renderer, clock, random, quotas, networks, .. } = parts;
        let large_reads = ReadBudget::new(parts.large_bytes);
        let (pages, policy) = (parts.pages, parts.policy);
        let slug_secret = Arc::default();
        Self {
            store,
            limiter,
            clock,
            random,
            quotas,
            networks: networks.into(),
            renderer,
            large_reads,
            pages,
            policy,
            slug_secret,
        }
    }

    pub fn quotas(&self) -> Quotas {
        self.quotas
    }

    /// Does `work` if `client` is within its limits.
    async fn admit<T>(
        &self,
        kind: LimitKind,
        client: Client,
        work: impl Future<Output = Result<T, ServiceError>>,
    ) -> Limited<T> {
        self.admit_with_slug(kind, client, None, |_| work).await
    }

    /// As [`PageService::admit`], for a create that would take `slug`. `work` is told what became of the reservation.
    async fn admit_with_slug<T, W: Future<Output = Result<T, ServiceError>>>(
        &self,
        kind: LimitKind,
        client: Client,
        slug: Option<Reservation>,
        work: impl FnOnce(Reserved) -> W,
    ) -> Limited<T> {
        let windows = self.quotas.of(kind).map(|quota| windows(&self.networks, quota, client)).unwrap_or_default();
        let (mut quota, mut reserved) = (None, Reserved::NotAsked);
        if let Some(attempt) = Attempt::within(kind, windows) {
            let decision = self.store.calls.check(&*self.limiter, Attempt { slug, ..attempt }).await;
            if !decision.admitted {
                return Limited {
                    outcome: Err(ServiceError::RateLimited(kind, decision)),
                    quota: Some((kind, decision)),
                };
            }
            (quota, reserved) = (Some((kind, decision)), decision.slug);
        }
        Limited { outcome: work(reserved).await, quota }
    }

    /// The HTML of `content`, by the newest rules, and the results of `checks`.
    async fn render(&self, content: &Content, purpose: Purpose, checks: Checks) -> Result<Made, RenderError> {
        self.store.calls.render(&*self.renderer, content, purpose, checks).await
    }

    /// The page under `slug`, or why there is none.
    async fn existing(&self, slug: &Slug, store_budget: &mut StoreBudget) -> Result<Arc<Page>, ServiceError> {
        active(store_budget.wait(self.store.lookup(slug)).await?)
    }

    /// The head of the page under `slug`, or why there is none.
    async fn existing_head(&self, slug: &Slug, store_budget: &mut StoreBudget) -> Result<PageHead, ServiceError> {
        active(store_budget.wait(self.store.head(slug)).await?)
    }

    /// The page of `head`, or its present state if it has changed since and its text is gone.
    async fn page_of(&self, head: PageHead, store_budget: &mut StoreBudget) -> Result<Arc<Page>, ServiceError> {
        match store_budget.wait(self.store.page(&head)).await? {
            Some(page) => Ok(page),
            None => self.existing(&head.slug, store_budget).await,
        }
    }
}

/// The page that was found, or why there is none.
fn active<T>(found: Lookup<T>) -> Result<T, ServiceError> {
    match found {
        Lookup::Active(page) => Ok(page),
        Lookup::Hidden(_) | Lookup::Deleted(_) => Err(ServiceError::Gone),
        Lookup::Absent => Err(ServiceError::NotFound),
    }
}

/// Pauses before a lost compare-and-set is tried again. The pause is random, so that writers do not stay in step.
async fn back_off(mut random: &Random) {
    tokio::time::sleep(LONGEST_JITTER.mul_f64(random.random())).await;
}

/// The end of an operation that begins now.
fn deadline() -> Instant {
    Instant::now() + DEADLINE
}

/// The outcome of `work`, or [`ServiceError::DeadlinePassed`] at `deadline`.
async fn until<T>(deadline: Instant, work: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ServiceError> {
    tokio::time::timeout_at(deadline, work).await.unwrap_or(Err(ServiceError::DeadlinePassed))
}
