//! Times and traces the service's calls of the store, the limiter and the renderer.

use std::{hash::Hash, sync::Arc, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet, metrics::counter::Counter, metrics::family::Family, metrics::gauge::Gauge,
    metrics::histogram::Histogram,
};
use tracing::{Span, field::Empty, info_span};

use crate::log_throttle::LogThrottle;
use crate::ports::rate_limiter::{Attempt, RateLimiter};
use crate::ports::renderer::{ContentChecks, Purpose, RenderError, RenderOutcome, Renderer};
use crate::ports::{clock::SharedClock, page_store::StoreError};
use crate::values::slug::{Reservation, Reserved};
use crate::values::{content::Content, quota::Decision};

/// Spans that are exported and never logged.
pub const TRACES: &str = "handbill::trace";

pub const CALL: &str = "call";

/// Seconds. 0.05 and 0.25 are the objectives for reads and writes.
pub const HISTOGRAM_BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

const FAILURES_PAUSE: Duration = Duration::from_mins(1);

pub type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    pub operation: &'static str,
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DecisionLabels {
    pub limit: &'static str,
    pub outcome: &'static str,
}

#[derive(Clone, Debug)]
pub struct CallMetrics {
    pub store: Durations<CallLabels>,
    /// 1 while the store answers.
    pub store_available: Gauge,
    pub decisions: Family<DecisionLabels, Counter>,
    pub renders: Histogram,
}

pub fn seconds() -> Histogram {
    Histogram::new(HISTOGRAM_BUCKETS)
}

pub fn durations<L: Clone + Eq + Hash>() -> Durations<L> {
    Family::new_with_constructor(seconds)
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self { store: durations(), store_available: Gauge::default(), decisions: Family::default(), renders: seconds() }
    }
}

/// Clones share what they count.
#[derive(Clone)]
pub(super) struct Instruments {
    metrics: CallMetrics,
    clock: SharedClock,
    failures: Arc<LogThrottle>,
}

/// Ends as abandoned unless its outcome is told.
struct CallSpan(Option<Span>);

impl CallSpan {
    fn new(system: Option<&'static str>, operation: &'static str, target: &'static str) -> Self {
        // SQLite is a library, and Redis has no tables.
        let is_remote = system.is_some_and(|system| system != "sqlite");
        Self(Some(info_span!(
            target: TRACES,
            "call",
            otel.name = format!("{operation} {target}"),
            otel.kind = if is_remote { "client" } else { "internal" },
            otel.status_code = Empty,
            error.type = Empty,
            db.system.name = system,
            db.operation.name = system.map(|_| operation),
            db.collection.name = system.filter(|system| *system != "redis").map(|_| target),
            handbill.limit = Empty,
            handbill.outcome = Empty,
        )))
    }

    fn done(mut self, outcome: &'static str, is_error: bool) {
        if let Some(span) = self.0.take() {
            span.record("handbill.outcome", outcome);
            if is_error {
                span.record("error.type", outcome).record("otel.status_code", "ERROR");
            }
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if let Some(span) = &self.0 {
            span.record("error.type", "abandoned");
        }
    }
}

impl Instruments {
    pub(super) fn new(metrics: CallMetrics, clock: SharedClock) -> Self {
        Self { metrics, clock, failures: Arc::new(LogThrottle::new(FAILURES_PAUSE)) }
    }

    async fn timed<T>(&self, call: impl Future<Output = T>) -> (T, Duration) {
        let began = self.clock.monotonic();
        let answer = call.await;
        (answer, self.clock.monotonic().saturating_sub(began))
    }

    /// How many errors were not logged before this one; `None` if this one is not logged either. Unreadable records are
    /// always logged.
    fn suppressed_before(&self, error: &StoreError, now: Duration) -> Option<u64> {
        match error {
            StoreError::Unreadable(_) => Some(0),
            _ => self.failures.allow_counted(now),
        }
    }

    /// Times a call of the store, and logs its failure.
    pub(super) async fn store_call<T>(
        &self,
        system: Option<&'static str>,
        operation: &'static str,
        name: impl Fn(&T) -> &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Self { metrics, clock, .. } = self;
        let span = CallSpan::new(system, operation, "pages");
        let (result, took) = self.timed(call).await;
        let (outcome, is_available) = match &result {
            Ok(answer) => (name(answer), true),
            Err(StoreError::Unavailable(_)) => ("unavailable", false),
            Err(StoreError::OutcomeUnknown(_)) => ("unknown", false),
            Err(StoreError::Unreadable(_)) => ("unreadable", true),
        };
        if let Err(error) = &result
            && let Some(left_out) = self.suppressed_before(error, clock.monotonic())
        {
            tracing::error!(operation, error = error.causes(), left_out, "the store failed");
        }
        metrics.store_available.set(i64::from(is_available));
        metrics.store.get_or_create(&CallLabels { operation, outcome }).observe(took.as_secs_f64());
        span.done(outcome, result.is_err());
        result
    }
}

/// A part of the service whose calls are timed and traced.
pub(super) struct Observed<P: ?Sized> {
    part: Arc<P>,
    calls: Instruments,
}

impl<P: ?Sized> Observed<P> {
    pub(super) fn new(part: Arc<P>, calls: &Instruments) -> Self {
        Self { part, calls: calls.clone() }
    }
}

impl Observed<dyn RateLimiter> {
    pub(super) async fn check(&self, attempt: Attempt) -> Decision {
        let span = CallSpan::new(self.part.system(), "decide", "limits");
        let limit = attempt.kind.name();
        let decision = self.part.check(attempt).await;
        let outcome = if decision.admitted { "admitted" } else { "refused" };
        self.calls.metrics.decisions.get_or_create(&DecisionLabels { limit, outcome }).inc();
        if let Some(span) = &span.0 {
            span.record("handbill.limit", limit);
        }
        span.done(outcome, false);
        decision
    }

    /// Within one process the store alone answers as fast, so nothing is reserved.
    pub(super) async fn reserve(&self, reservation: &Reservation) -> Reserved {
        if self.part.system().is_none() {
            return Reserved::Unopposed;
        }
        let span = CallSpan::new(self.part.system(), "reserve", "slugs");
        let reserved = self.part.reserve(reservation).await;
        span.done(if reserved == Reserved::ByAnother { "slug_taken" } else { "done" }, false);
        reserved
    }
}

impl Observed<dyn Renderer> {
    pub(super) async fn render(
        &self,
        content: &Content,
        purpose: Purpose,
        checks: ContentChecks,
    ) -> Result<RenderOutcome, RenderError> {
        let span = CallSpan::new(None, "render", "markdown");
        let (made, took) = self.calls.timed(self.part.render(content, purpose, checks)).await;
        if made.is_ok() {
            self.calls.metrics.renders.observe(took.as_secs_f64());
        }
        span.done(if made.is_ok() { "done" } else { "unavailable" }, made.is_err());
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::clock::SystemClock;
    use crate::ports::page_store::NotReachedError;

    #[test]
    fn a_store_that_is_down_is_logged_once_a_minute() {
        fn down() -> StoreError {
            StoreError::Unavailable(NotReachedError.into())
        }

        let calls = Instruments::new(CallMetrics::default(), Arc::new(SystemClock::new()));
        let left_out = |error: &StoreError, seconds| calls.suppressed_before(error, Duration::from_secs(seconds));
        assert_eq!(left_out(&down(), 1), Some(0));
        assert!((0..100).all(|_| left_out(&down(), 60).is_none()));
        assert_eq!(left_out(&StoreError::Unreadable(NotReachedError.into()), 60), Some(0));
        assert_eq!(left_out(&StoreError::OutcomeUnknown(NotReachedError.into()), 61), Some(100));
    }
}
