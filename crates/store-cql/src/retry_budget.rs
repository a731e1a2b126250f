//! Limits the requests that are sent again to a share of all requests, so that a failing database does not get many
//! more requests than a healthy one.
//!
//! Each request earns a tenth of a retry. The savings are bounded, so a long good time does not pay for a storm. The
//! request that a slow read sends to a second node counts as a retry when it was sent. Reading back the outcome of a write
//! is not a retry: it is needed, and each write has at most one such read in flight.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::metrics::{ClusterMetrics, RetryLabels};

/// Retries that can be saved: one for each operation that can be in flight by default, so that all of them can go on when a
/// node is lost, even after a quiet time.
const MOST_SAVED: i64 = 64;

/// The cost of a retry. A request earns 1, so at most one of ten requests is a retry.
const COST: i64 = 10;

/// The retries that a process may make. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct RetryBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    saved: AtomicI64,
    /// Set once, after the driver has got its clones.
    metrics: OnceLock<ClusterMetrics>,
}

impl RetryBudget {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared { saved: AtomicI64::new(MOST_SAVED * COST), metrics: OnceLock::new() }))
    }

    /// Counts in `metrics` from now on. Only the first call has an effect.
    pub(super) fn count_in(&self, metrics: &ClusterMetrics) {
        let _ = self.0.metrics.set(metrics.clone());
    }

    pub(super) fn request(&self) {
        self.change(|saved| Some((saved + 1).min(MOST_SAVED * COST)));
    }

    /// Whether a request may be sent again now.
    pub(super) fn try_retry(&self) -> bool {
        let may_be_sent = self.change(|saved| (saved >= COST).then_some(saved - COST));
        self.count(if may_be_sent { "sent" } else { "refused" });
        may_be_sent
    }

    pub(super) fn has_retry(&self) -> bool {
        self.0.saved.load(Ordering::Relaxed) >= COST
    }

    /// A request was sent again without asking.
    pub(super) fn retried(&self) {
        self.change(|saved| Some((saved - COST).max(-MOST_SAVED * COST)));
        self.count("sent");
    }

    fn count(&self, outcome: &'static str) {
        if let Some(metrics) = self.0.metrics.get() {
            metrics.retries.get_or_create(&RetryLabels { outcome }).inc();
        }
    }

    fn change(&self, change: impl Fn(i64) -> Option<i64>) -> bool {
        self.0.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `requests` are retried if every one fails.
    fn retries(budget: &RetryBudget, requests: usize) -> usize {
        (0..requests)
            .filter(|_| {
                budget.request();
                budget.try_retry()
            })
            .count()
    }

    #[test]
    fn a_tenth_of_the_requests_is_sent_again_however_many_fail() {
        let budget = RetryBudget::new();
        while budget.try_retry() {}
        assert_eq!(retries(&budget, 10_000), 1000);
    }

    #[test]
    fn a_long_good_time_saves_as_many_retries_as_operations_can_be_in_flight() {
        let budget = RetryBudget::new();
        for _ in 0..100_000 {
            budget.request();
        }
        let mut retries = 0;
        while budget.try_retry() {
            retries += 1;
        }
        assert_eq!(retries, MOST_SAVED);
    }

    #[test]
    fn what_is_sent_again_and_what_the_budget_refuses_is_counted_by_all_clones() {
        let (budget, metrics) = (RetryBudget::new(), ClusterMetrics::default());
        let of_driver = budget.clone();
        budget.count_in(&metrics);
        while of_driver.try_retry() {}
        budget.retried();
        let counted = ["sent", "refused"].map(|outcome| metrics.retries.get_or_create(&RetryLabels { outcome }).get());
        assert_eq!(counted, [MOST_SAVED.unsigned_abs() + 1, 1]);
    }

    #[test]
    fn a_second_request_that_the_driver_sends_counts_as_a_retry() {
        let budget = RetryBudget::new();
        for _ in 0..MOST_SAVED {
            assert!(budget.has_retry());
            budget.retried();
        }
        assert!(!budget.has_retry() && !budget.try_retry());
        for _ in 0..1000 {
            budget.retried();
        }
        assert_eq!(retries(&budget, 10_000), (10_000 - usize::try_from(MOST_SAVED * COST).unwrap()) / 10);
    }
}
