//! Decorators that record duration and outcome of every call of a backend, whatever it is, as metrics and as a span of
//! the request that makes it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::client::Client;
use crate::domain::content::Content;
use crate::domain::markdown::Rendered;
use crate::domain::page::{Page, PageVersion};
use crate::domain::quota::{Decision, Quota};
use crate::domain::slug::Slug;
use crate::ports::clock::SharedClock;
use crate::ports::page_store::{Inserted, Lookup, PageStore, Record, StoreError, Swapped};
use crate::ports::rate_limiter::{Limited, RateLimiter};
use crate::ports::renderer::Renderer;
use crate::ports::slug_reservations::{Reservation, SlugReservations};
use crate::telemetry::metrics::{DecisionLabels, Metrics, record};
use crate::telemetry::traces::{Span, System, Tracer};

/// Puts decorators around backends.
#[derive(Clone)]
pub struct Measured {
    /// Where calls are recorded.
    pub metrics: Arc<Metrics>,
    /// What measures them.
    pub clock: SharedClock,
    /// What makes their spans.
    pub tracer: Tracer,
}

impl Measured {
    /// `store`, which keeps its pages in `system`, measured.
    pub fn store(&self, store: Arc<dyn PageStore>, system: System) -> Arc<dyn PageStore> {
        Arc::new(Around { inner: store, system, measure: self.clone() })
    }

    /// `limiter`, which counts in `system`, measured.
    pub fn limiter(&self, limiter: Arc<dyn RateLimiter>, system: System) -> Arc<dyn RateLimiter> {
        Arc::new(Around { inner: limiter, system, measure: self.clone() })
    }

    /// `reservations`, which are kept in `system`, measured.
    pub fn reservations(&self, reservations: Arc<dyn SlugReservations>, system: System) -> Arc<dyn SlugReservations> {
        Arc::new(Around { inner: reservations, system, measure: self.clone() })
    }

    /// `renderer`, measured.
    pub fn renderer(&self, renderer: Arc<dyn Renderer>) -> Arc<dyn Renderer> {
        Arc::new(Around { inner: renderer, system: System::Process, measure: self.clone() })
    }
}

struct Around<B: ?Sized> {
    measure: Measured,
    system: System,
    inner: Arc<B>,
}

impl<B: ?Sized> Around<B> {
    /// The answer to `call`, how long it took, and its span, which is to be ended.
    async fn time<T>(
        &self,
        operation: &'static str,
        target: &'static str,
        call: impl Future<Output = T>,
    ) -> (T, Duration, Span) {
        let span = self.measure.tracer.call(self.system, operation, target);
        let started = self.measure.clock.monotonic();
        let answer = span.around(call).await;
        (answer, self.measure.clock.monotonic().saturating_sub(started), span)
    }
}

impl Around<dyn PageStore> {
    /// Makes one call of the store and records it. `name` is what an answer is called in the metrics.
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
        if outcome == "unreadable" {
            metrics.corrupt_records.inc();
        }
        metrics.store_available.set(i64::from(is_available));
        record(&metrics.store, operation, outcome, took);
        if result.is_ok() {
            span.done(outcome);
        } else {
            span.failed(outcome);
        }
        result
    }
}

#[async_trait]
impl PageStore for Around<dyn PageStore> {
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<Inserted, StoreError> {
        let name = |answer: &Inserted| match answer {
            Inserted::Done => "done",
            Inserted::SlugTaken => "slug_taken",
        };
        self.record("insert_if_absent", name, self.inner.insert_if_absent(page)).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let name = |answer: &Lookup| match answer {
            Lookup::Active(_) => "active",
            Lookup::Deleted(_) => "deleted",
            Lookup::Absent => "absent",
        };
        self.record("lookup", name, self.inner.lookup(slug)).await
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<Swapped, StoreError> {
        let name = |answer: &Swapped| match answer {
            Swapped::Done => "done",
            Swapped::Stale => "stale",
        };
        self.record("compare_and_set", name, self.inner.compare_and_set(expected, next)).await
    }
}

#[async_trait]
impl RateLimiter for Around<dyn RateLimiter> {
    async fn decide(&self, limited: Limited, quota: Quota, client: Client) -> Decision {
        let (decision, took, span) = self.time("decide", "limits", self.inner.decide(limited, quota, client)).await;
        let (limit, admitted) = (limited.name(), decision.admitted);
        let outcome = if admitted { "admitted" } else { "refused" };
        self.measure.metrics.decisions.get_or_create(&DecisionLabels { limit, admitted }).inc();
        record(&self.measure.metrics.limiter, limit, outcome, took);
        span.set("handbill.limit", limit);
        span.done(outcome);
        decision
    }
}

#[async_trait]
impl SlugReservations for Around<dyn SlugReservations> {
    async fn reserve(&self, slug: &Slug) -> Reservation {
        let (reservation, took, span) = self.time("reserve", "slugs", self.inner.reserve(slug)).await;
        let outcome = match reservation {
            Reservation::Held => "held",
            Reservation::Taken => "taken",
        };
        record(&self.measure.metrics.reservations, "reserve", outcome, took);
        span.done(outcome);
        reservation
    }

    async fn release(&self, slug: &Slug) {
        let ((), took, span) = self.time("release", "slugs", self.inner.release(slug)).await;
        record(&self.measure.metrics.reservations, "release", "done", took);
        span.done("done");
    }
}

#[async_trait]
impl Renderer for Around<dyn Renderer> {
    async fn render(&self, content: &Content) -> Rendered {
        let (rendered, took, span) = self.time("render", "markdown", self.inner.render(content)).await;
        self.measure.metrics.renders.observe(took.as_secs_f64());
        span.done("done");
        rendered
    }
}
