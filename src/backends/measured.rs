//! Decorators that record duration and outcome of every call of a backend, whatever it is.

use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::SharedClock;
use crate::domain::client::Client;
use crate::domain::page::{Page, PageVersion};
use crate::domain::quota::{Decision, Quota};
use crate::domain::slug::Slug;
use crate::limits::{Limited, RateLimiter};
use crate::reservations::{Reservation, SlugReservations};
use crate::store::{Inserted, Lookup, PageStore, Record, StoreError, Swapped};
use crate::telemetry::metrics::{DecisionLabels, Metrics, record};

/// Puts decorators around backends.
#[derive(Clone)]
pub struct Measured {
    /// Where calls are recorded.
    pub metrics: Arc<Metrics>,
    /// What measures them.
    pub clock: SharedClock,
}

impl Measured {
    /// `store`, measured.
    pub fn store(&self, store: Arc<dyn PageStore>) -> Arc<dyn PageStore> {
        Arc::new(Around { inner: store, measure: self.clone() })
    }

    /// `limiter`, measured.
    pub fn limiter(&self, limiter: Arc<dyn RateLimiter>) -> Arc<dyn RateLimiter> {
        Arc::new(Around { inner: limiter, measure: self.clone() })
    }

    /// `reservations`, measured.
    pub fn reservations(&self, reservations: Arc<dyn SlugReservations>) -> Arc<dyn SlugReservations> {
        Arc::new(Around { inner: reservations, measure: self.clone() })
    }

    /// The outcome of `call` and how long it took.
    async fn time<T>(&self, call: impl Future<Output = T>) -> (T, std::time::Duration) {
        let started = self.clock.monotonic();
        let outcome = call.await;
        (outcome, self.clock.monotonic().saturating_sub(started))
    }
}

struct Around<B: ?Sized> {
    measure: Measured,
    inner: Arc<B>,
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
        let (result, took) = self.measure.time(call).await;
        let (outcome, is_available) = match &result {
            Ok(answer) => (name(answer), true),
            Err(StoreError::Unavailable(_)) => ("unavailable", false),
            Err(StoreError::OutcomeUnknown(_)) => ("unknown", false),
            Err(StoreError::Unreadable(_)) => ("unreadable", true),
        };
        metrics.store_available.set(i64::from(is_available));
        record(&metrics.store, operation, outcome, took);
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
        let (decision, took) = self.measure.time(self.inner.decide(limited, quota, client)).await;
        let admitted = decision.admitted;
        self.measure.metrics.decisions.get_or_create(&DecisionLabels { limit: limited.name(), admitted }).inc();
        record(&self.measure.metrics.limiter, limited.name(), if admitted { "admitted" } else { "refused" }, took);
        decision
    }
}

#[async_trait]
impl SlugReservations for Around<dyn SlugReservations> {
    async fn reserve(&self, slug: &Slug) -> Reservation {
        let (reservation, took) = self.measure.time(self.inner.reserve(slug)).await;
        let outcome = match reservation {
            Reservation::Held => "held",
            Reservation::Taken => "taken",
        };
        record(&self.measure.metrics.reservations, "reserve", outcome, took);
        reservation
    }

    async fn release(&self, slug: &Slug) {
        let ((), took) = self.measure.time(self.inner.release(slug)).await;
        record(&self.measure.metrics.reservations, "release", "done", took);
    }
}
