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

/// What an outcome is called in the metrics.
fn outcome<T>(result: &Result<T, StoreError>, name: impl Fn(&T) -> &'static str) -> &'static str {
    match result {
        Ok(answer) => name(answer),
        Err(StoreError::Unavailable(_)) => "unavailable",
        Err(StoreError::OutcomeUnknown(_)) => "unknown",
        Err(StoreError::Unreadable(_)) => "unreadable",
    }
}

#[async_trait]
impl PageStore for Around<dyn PageStore> {
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<Inserted, StoreError> {
        let (result, took) = self.measure.time(self.inner.insert_if_absent(page)).await;
        let outcome = outcome(&result, |answer| match answer {
            Inserted::Done => "done",
            Inserted::SlugTaken => "slug_taken",
        });
        record(&self.measure.metrics.store, "insert_if_absent", outcome, took);
        result
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        let (result, took) = self.measure.time(self.inner.lookup(slug)).await;
        let outcome = outcome(&result, |answer| match answer {
            Lookup::Active(_) => "active",
            Lookup::Deleted(_) => "deleted",
            Lookup::Absent => "absent",
        });
        record(&self.measure.metrics.store, "lookup", outcome, took);
        result
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<Swapped, StoreError> {
        let (result, took) = self.measure.time(self.inner.compare_and_set(expected, next)).await;
        let outcome = outcome(&result, |answer| match answer {
            Swapped::Done => "done",
            Swapped::Stale => "stale",
        });
        record(&self.measure.metrics.store, "compare_and_set", outcome, took);
        result
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
