//! Decorators that record duration and outcome of every call of any backend, as metrics and as a span of the request
//! that makes it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use tokio::time::Instant;

use crate::telemetry::labels::DecisionLabels;
use crate::telemetry::metrics::{Metrics, record};
use crate::telemetry::spans::{self, Span, System};
use handbill_core::domain::content::Content;
use handbill_core::domain::page::{Page, PageHead, PageVersion, Tombstone};
use handbill_core::domain::quota::Decision;
use handbill_core::domain::reservation::{Reservation, Reserved};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::slug_secret::SlugSecret;
use handbill_core::log_throttle::LogThrottle;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::page_store::{Access, CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use handbill_core::ports::rate_limiter::{Attempt, RateLimiter};
use handbill_core::ports::renderer::{Checks, Made, Purpose, RenderError, Renderer};

/// A store that is down, or whose volume is full, fails every request. One line in this time says so, and how many it left
/// out.
const FAILURES_PAUSE: Duration = Duration::from_mins(1);

/// Puts decorators around backends.
#[derive(Clone)]
pub struct Instrumentation {
    metrics: Arc<Metrics>,
    clock: SharedClock,
    /// When a failure of the store was last logged.
    failures: Arc<LogThrottle>,
}

impl Instrumentation {
    pub fn new(metrics: Arc<Metrics>, clock: SharedClock) -> Self {
        Self { metrics, clock, failures: Arc::new(LogThrottle::new(FAILURES_PAUSE)) }
    }

    /// How many errors were left out before `error`; `None` if it is left out too. A record that cannot be read is always logged.
    fn left_out(&self, error: &StoreError, now: Duration) -> Option<u64> {
        match error {
            StoreError::Unreadable(_) => Some(0),
            _ => self.failures.allow_counted(now),
        }
    }

    /// Wraps `store`, which keeps its pages in `system`, so that its calls are recorded.
    pub fn store(&self, store: Arc<dyn PageStore>, system: System) -> Arc<dyn PageStore> {
        Arc::new(Instrumented { inner: store, system, measure: self.clone() })
    }

    /// Wraps `limiter`, which counts in `system`, so that its calls are recorded.
    pub fn limiter(&self, limiter: Arc<dyn RateLimiter>, system: System) -> Arc<dyn RateLimiter> {
        Arc::new(Instrumented { inner: limiter, system, measure: self.clone() })
    }

    /// Wraps `renderer`, so that its calls are recorded.
    pub fn renderer(&self, renderer: Arc<dyn Renderer>) -> Arc<dyn Renderer> {
        Arc::new(Instrumented { inner: renderer, system: System::Process, measure: self.clone() })
    }
}

struct Instrumented<B: ?Sized> {
    measure: Instrumentation,
    system: System,
    inner: Arc<B>,
}

impl<B: ?Sized> Instrumented<B> {
    /// Runs `call`. Returns the answer, how long the call took, and the call's span, which the caller must end.
    async fn time<T>(
        &self,
        operation: &'static str,
        target: &'static str,
        call: impl Future<Output = T>,
    ) -> (T, Duration, Span) {
        let span = spans::call(self.system, operation, target);
        let started = self.measure.clock.monotonic();
        let answer = span.run(call).await;
        (answer, self.measure.clock.monotonic().saturating_sub(started), span)
    }
}

impl Instrumented<dyn PageStore> {
    /// Makes one call of the store and records it. `name` returns the name of an answer in the metrics.
    async fn record<T>(
        &self,
        operation: &'static str,
        name: impl Fn(&T) -> &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let metrics = &self.measure.metrics;
        let (result, took, span) = self.time(operation, "pages", call).await;
        let (outcome, is_available) = match &result {
            Ok(answer) => (name(answer), true),
            Err(StoreError::Unavailable(_)) => ("unavailable", false),
            Err(StoreError::OutcomeUnknown(_)) => ("unknown", false),
            Err(StoreError::Unreadable(_)) => ("unreadable", true),
        };
        if let Err(error) = &result {
            let left_out = self.measure.left_out(error, self.measure.clock.monotonic());
            if let Some(left_out) = left_out {
                tracing::error!(operation, error = error.causes(), left_out, "the store failed");
            }
        }
        metrics.store_available.set(i64::from(is_available));
        record(&metrics.store, operation, outcome, took);
        span.done(outcome, result.is_err());
        result
    }
}

/// The outcome of a conditional write in metrics and spans.
const SWAP_NAME: fn(&CasResult) -> &'static str = |answer| match answer {
    CasResult::Swapped => "done",
    CasResult::Stale => "stale",
};

#[async_trait]
impl PageStore for Instrumented<dyn PageStore> {
    async fn slug_secret(&self) -> Result<SlugSecret, StoreError> {
        self.inner.slug_secret().await
    }

    async fn insert_if_absent(&self, page: Arc<Page>, needed_by: Option<Instant>) -> Result<InsertResult, StoreError> {
        let name = |answer: &InsertResult| match answer {
            InsertResult::Inserted => "done",
            InsertResult::SlugTaken(_) => "slug_taken",
        };
        self.record("insert_if_absent", name, self.inner.insert_if_absent(page, needed_by)).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.record("lookup", Lookup::name, self.inner.lookup(slug)).await
    }

    fn access(&self) -> Access {
        self.inner.access()
    }

    fn mark(&self, slug: &Slug) -> Option<u64> {
        self.inner.mark(slug)
    }

    async fn head(&self, slug: &Slug) -> Result<Lookup<PageHead>, StoreError> {
        self.record("head", Lookup::name, self.inner.head(slug)).await
    }

    async fn page(&self, head: &PageHead) -> Result<Option<Arc<Page>>, StoreError> {
        let name = |answer: &Option<Arc<Page>>| if answer.is_some() { "active" } else { "stale" };
        self.record("page", name, self.inner.page(head)).await
    }

    async fn compare_and_set(
        &self,
        expected: PageVersion,
        next: Record,
        needed_by: Option<Instant>,
    ) -> Result<CasResult, StoreError> {
        self.record("compare_and_set", SWAP_NAME, self.inner.compare_and_set(expected, next, needed_by)).await
    }

    async fn delete_unreadable(&self, tombstone: Tombstone) -> Result<CasResult, StoreError> {
        self.record("delete_unreadable", SWAP_NAME, self.inner.delete_unreadable(tombstone)).await
    }
}

#[async_trait]
impl RateLimiter for Instrumented<dyn RateLimiter> {
    async fn check(&self, attempt: Attempt) -> Decision {
        let limit = attempt.kind.name();
        let (decision, _, span) = self.time("decide", "limits", self.inner.check(attempt)).await;
        let outcome = if decision.admitted { "admitted" } else { "refused" };
        self.measure.metrics.decisions.get_or_create(&DecisionLabels { limit, outcome }).inc();
        span.set("handbill.limit", limit);
        span.done(outcome, false);
        decision
    }

    async fn reserve(&self, reservation: &Reservation) -> Reserved {
        let (reserved, _, span) = self.time("reserve", "slugs", self.inner.reserve(reservation)).await;
        span.done(if reserved == Reserved::ByAnother { "slug_taken" } else { "done" }, false);
        reserved
    }
}

#[async_trait]
impl Renderer for Instrumented<dyn Renderer> {
    async fn render(&self, content: &Content, purpose: Purpose, checks: Checks) -> Result<Made, RenderError> {
        let rendering = self.inner.render(content, purpose, checks);
        let (rendered, took, span) = self.time("render", "markdown", rendering).await;
        if rendered.is_ok() {
            self.measure.metrics.renders.observe(took.as_secs_f64());
        }
        span.done(if rendered.is_ok() { "done" } else { "unavailable" }, rendered.is_err());
        rendered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handbill_core::ports::clock::SystemClock;
    use handbill_core::ports::page_store::NotReachedError;

    #[test]
    fn a_store_that_is_down_is_logged_once_a_minute_and_each_unreadable_record_at_once() {
        let measure = Instrumentation::new(Arc::default(), Arc::new(SystemClock::new()));
        let down = || StoreError::Unavailable(NotReachedError.into());
        let left_out = |error: &StoreError, seconds| measure.left_out(error, Duration::from_secs(seconds));
        assert_eq!(left_out(&down(), 1), Some(0));
        assert!((0..100).all(|_| left_out(&down(), 60).is_none()));
        assert_eq!(left_out(&StoreError::Unreadable(NotReachedError.into()), 60), Some(0));
        assert_eq!(left_out(&StoreError::OutcomeUnknown(NotReachedError.into()), 61), Some(100));
    }
}
