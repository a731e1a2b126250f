//! The service's rules: what may be done to a page, checked in which order. Knows no transport and no status codes.
//!
//! # The order of checks
//!
//! The first check that fails is the answer. REST and MCP both come through here, so they cannot disagree.
//!
//! | step | create | read | update | delete | token |
//! |---|---|---|---|---|---|
//! | 1 | body | slug's grammar | slug's grammar | slug's grammar | rate limit |
//! | 2 | rate limit | existence | rate limit | rate limit | form |
//! | 3 | | | existence | existence | grant |
//! | 4 | | | credential | credential | client: existence and credential in one |
//! | 5 | | | body | body, which is to be empty | scope |
//! | 6 | | | precondition | precondition | |
//!
//! An invalid create spends no quota. Of updates, deletes and tokens every attempt does, which also bounds guessing of
//! keys; only an update or delete of a slug that no page can have is answered before.

mod create;
mod delete;
mod error;
mod large_reads;
mod read;
mod render;
pub mod render_threads;
mod request;
mod store_budget;
mod token;
mod update;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;

use crate::domain::client::Client;
use crate::domain::page::Page;
use crate::domain::quota::Decision;
use crate::domain::slug::Slug;
use crate::ports::clock::SharedClock;
use crate::ports::page_store::{Lookup, PageStore};
use crate::ports::random::Random;
use crate::ports::rate_limiter::{LimitKind, Quotas, RateLimiter};
use crate::ports::renderer::Renderer;
use crate::ports::slug_reservations::SlugReservations;

pub use create::Created;
pub use error::{BodyError, ServiceError};
use large_reads::LargeReads;
pub use large_reads::PageRead;
use render::Rendering;
pub use request::{Body, CreateFields, Credential, Precondition, States, UpdateFields};
pub use store_budget::STORE_BUDGET;
use store_budget::StoreBudget;
pub use token::{FormError, TokenClient, TokenError, TokenForm};

/// How long one operation may take, waiting for stores included. After it the outcome is unknown to the caller.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Longest pause before a lost compare-and-set is tried again; the pause is drawn evenly from nothing up to this.
const LONGEST_JITTER: Duration = Duration::from_millis(25);

/// The service over its backends. Cheap to clone.
#[derive(Clone)]
pub struct PageService {
    store: Arc<dyn PageStore>,
    limiter: Arc<dyn RateLimiter>,
    reservations: Arc<dyn SlugReservations>,
    clock: SharedClock,
    random: Random,
    quotas: Quotas,
    rendering: Rendering,
    large_reads: LargeReads,
}

/// What became of a limited operation, and where its client stands.
#[derive(Debug)]
pub struct Attempt<T> {
    /// The result, or the first check that failed.
    pub outcome: Result<T, ServiceError>,
    /// What was limited and what the limiter decided; `None` where it was not asked or the limit is off.
    pub quota: Option<(LimitKind, Decision)>,
}

impl<T> Attempt<T> {
    /// A failure before the limiter was asked.
    fn uncounted(error: ServiceError) -> Self {
        Self { outcome: Err(error), quota: None }
    }
}

impl PageService {
    /// A service over these backends.
    pub fn new(
        store: Arc<dyn PageStore>,
        limiter: Arc<dyn RateLimiter>,
        reservations: Arc<dyn SlugReservations>,
        renderer: Arc<dyn Renderer>,
        clock: SharedClock,
        random: Random,
        quotas: Quotas,
    ) -> Self {
        let (rendering, large_reads) = (Rendering::new(renderer, None), LargeReads::new());
        Self { store, limiter, reservations, clock, random, quotas, rendering, large_reads }
    }

    /// The same service, which writes pages that it had to render again back to its store. For a store of this process
    /// alone: where replicas share one, each would write.
    #[must_use]
    pub fn writing_renewed_pages_back(self) -> Self {
        let rendering = self.rendering.writing_back_to(Arc::clone(&self.store));
        Self { rendering, ..self }
    }

    /// What clients are limited to.
    pub fn quotas(&self) -> Quotas {
        self.quotas
    }

    /// Does `work` within [`DEADLINE`] if `client` is within its limit.
    async fn limited<T>(
        &self,
        limited: LimitKind,
        client: Client,
        work: impl Future<Output = Result<T, ServiceError>>,
    ) -> Attempt<T> {
        self.admitted(limited, client, within_deadline(Instant::now(), work)).await
    }

    /// Does `work`, which sees to its deadline by itself, if `client` is within its limit.
    async fn admitted<T>(
        &self,
        limited: LimitKind,
        client: Client,
        work: impl Future<Output = Result<T, ServiceError>>,
    ) -> Attempt<T> {
        let mut quota = None;
        if let Some(limit) = self.quotas.of(limited) {
            let decision = self.limiter.decide(limited, limit, client).await;
            if !decision.admitted {
                return Attempt { outcome: Err(ServiceError::RateLimited(decision)), quota: Some((limited, decision)) };
            }
            quota = Some((limited, decision));
        }
        Attempt { outcome: work.await, quota }
    }

    /// The page under `slug`, or why there is none.
    async fn existing(&self, slug: &Slug, store_budget: &mut StoreBudget) -> Result<Arc<Page>, ServiceError> {
        match store_budget.wait(self.store.lookup(slug)).await? {
            Lookup::Active(page) => Ok(page),
            Lookup::Deleted(_) => Err(ServiceError::Gone),
            Lookup::Absent => Err(ServiceError::NotFound),
        }
    }

    /// Waits a little before a lost compare-and-set is tried again, so that writers do not stay in step.
    async fn back_off(&self) {
        tokio::time::sleep(LONGEST_JITTER.mul_f64((&self.random).random())).await;
    }
}

/// The outcome of `work`, or a failure where it is not done within [`DEADLINE`] of the time when it `began`.
async fn within_deadline<T>(
    began: Instant,
    work: impl Future<Output = Result<T, ServiceError>>,
) -> Result<T, ServiceError> {
    tokio::time::timeout_at(began + DEADLINE, work).await.unwrap_or(Err(ServiceError::DeadlinePassed))
}
