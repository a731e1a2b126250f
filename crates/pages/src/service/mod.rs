//! The operations on pages and the order of their checks, without transports and status codes.
//!
//! # The order of checks
//!
//! The first check that fails decides the answer, for REST and MCP alike.
//!
//! | step | create | read | update | delete | token |
//! |---|---|---|---|---|---|
//! | 1 | body | slug's grammar | slug's grammar | slug's grammar | rate limit |
//! | 2 | rate limit | existence | rate limit | rate limit | form |
//! | 3 | | | existence | existence | grant |
//! | 4 | | | credential | credential | client: existence and credential in one |
//! | 5 | | | body | body: only a tool has one | scope |
//! | 6 | | | precondition | precondition | |
//!
//! A preview has the steps of a create, with its own limit. After the limit, a create is refused without a title in the
//! request or text, then during a pause, then by the blocklist. An update is refused by the blocklist after its body
//! was checked. So nobody can probe the blocklist for free.
//!
//! An invalid create or preview spends no quota. Updates, deletes and token requests always do, which limits guessing
//! of keys, unless the slug does not fit the grammar.

mod create;
mod error;
mod import;
mod in_use;
mod instruments;
mod moderation;
pub mod oauth;
mod policy;
mod read;
mod rendering;
mod request;
mod shared_reads;
mod store;
mod time_limits;
mod update;

use std::{future::Future, sync::Arc};

use tokio::sync::OnceCell;

use crate::ports::rate_limiter::{Attempt, LimitKind, Quotas, RateLimiter};
use crate::ports::{clock::SharedClock, page_store::ChangeListener, random::Random, renderer::Renderer};
use crate::values::client::{SharedNetwork, windows};
use crate::values::slug::{Slug, SlugSecret};
use crate::values::{client::Client, head::PageHead, page::Page, quota::Decision, record::Record};

pub use create::{Created, Preview};
pub use error::{BodyError, BodyReadError, FormError, ServiceError, TokenError};
pub use import::{Imported, Importer, Precedence};
use in_use::Turns;
use instruments::Observed;
pub use instruments::{
    CALL, CallLabels, CallMetrics, DecisionLabels, Durations, HISTOGRAM_BUCKETS, TRACES, durations, seconds,
};
pub use moderation::{ActOutcome, Found, Moderation, OperatorAct};
pub use oauth::{TokenClient, TokenForm};
pub use policy::{PublishingPolicy, RefusalLabels};
use read::ReadBudget;
pub use read::{PageRead, Reading, is_current};
pub use rendering::{RenderInPlace, RenderThreads};
pub use request::{Body, Credential, LateBody, PageFields, Precondition, States};
pub use store::SharedStore;
use time_limits::StoreBudget;
pub use time_limits::{DEADLINE, STORE_BUDGET};

pub struct ServiceParts {
    pub store: SharedStore,
    pub limiter: Arc<dyn RateLimiter>,
    pub renderer: Arc<dyn Renderer>,
    pub clock: SharedClock,
    pub random: Random,
    pub quotas: Quotas,
    pub networks: Vec<SharedNetwork>,
    pub policy: PublishingPolicy,
    pub large_bytes: usize,
}

pub struct PageService {
    store: SharedStore,
    limiter: Observed<dyn RateLimiter>,
    renderer: Observed<dyn Renderer>,
    clock: SharedClock,
    random: Random,
    quotas: Quotas,
    networks: Vec<SharedNetwork>,
    policy: PublishingPolicy,
    large_reads: ReadBudget,
    slug_secret: OnceCell<SlugSecret>,
    turns: Turns,
}

/// A result, with the state of its rate limit.
#[derive(Debug)]
pub struct Limited<T, E = ServiceError> {
    pub outcome: Result<T, E>,
    /// `None` if the limiter was not asked or the limit is off.
    pub quota: Option<(LimitKind, Decision)>,
}

impl<T> Limited<T> {
    fn rejected_before_limit(error: ServiceError) -> Self {
        Self { outcome: Err(error), quota: None }
    }
}

impl PageService {
    pub fn new(parts: ServiceParts) -> Self {
        let ServiceParts { store, limiter, renderer, clock, random, quotas, networks, policy, large_bytes } = parts;
        Self {
            limiter: Observed::new(limiter, store.calls()),
            renderer: Observed::new(renderer, store.calls()),
            store,
            clock,
            random,
            quotas,
            networks,
            policy,
            large_reads: ReadBudget::new(large_bytes),
            slug_secret: OnceCell::new(),
            turns: Turns::default(),
        }
    }

    /// As [`PageStore::subscribe`](crate::ports::page_store::PageStore::subscribe).
    pub fn subscribe(&self, listener: Arc<dyn ChangeListener>) -> bool {
        self.store.subscribe(listener)
    }

    pub fn quotas(&self) -> Quotas {
        self.quotas
    }

    /// Does `work` if the client is within its limit; else `work` is dropped before it begins.
    async fn admit<T, E: From<ServiceError>>(
        &self,
        kind: LimitKind,
        client: Client,
        work: impl Future<Output = Result<T, E>>,
    ) -> Limited<T, E> {
        let own_quota = self.quotas.of(kind);
        let windows = own_quota.map(|quota| windows(&self.networks, quota, client)).unwrap_or_default();
        let mut quota = None;
        if let Some(attempt) = Attempt::within(kind, windows) {
            let decision = self.limiter.check(attempt).await;
            if !decision.admitted {
                let is_shared = Some(decision.quota) != own_quota;
                let refused = ServiceError::RateLimited { kind, decision, is_shared };
                return Limited { outcome: Err(refused.into()), quota: Some((kind, decision)) };
            }
            quota = Some((kind, decision));
        }
        Limited { outcome: work.await, quota }
    }

    async fn existing(&self, slug: &Slug, store_budget: &mut StoreBudget) -> Result<Arc<Page>, ServiceError> {
        active(store_budget.wait(self.store.lookup(slug)).await?)
    }

    async fn existing_head(&self, slug: &Slug, store_budget: &mut StoreBudget) -> Result<PageHead, ServiceError> {
        active(store_budget.wait(self.store.head(slug)).await?)
    }
}

fn active<T>(found: Option<Record<T>>) -> Result<T, ServiceError> {
    match found {
        Some(Record::Active(page)) => Ok(page),
        Some(Record::Hidden(..) | Record::Deleted(_)) => Err(ServiceError::Gone),
        None => Err(ServiceError::NotFound),
    }
}
