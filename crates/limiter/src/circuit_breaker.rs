//! A circuit breaker, as a pure value: while it is open, calls do not wait for Redis.
//!
//! ```text
//! closed ── a refused connection, or failures one after the other ──► open ── a probe succeeded ──► closed
//! ```
//!
//! When the breaker opens, its owner starts probes in the background. The owner closes the breaker when a probe
//! succeeds.

use std::time::Duration;

/// Failed calls in a row that open the breaker. One slow call is no outage.
const FAILURES: u32 = 3;

/// Whether calls go to Redis. Times are durations since one instant, by a clock that never goes back.
#[derive(Debug)]
pub(super) enum CircuitBreaker {
    Closed {
        /// Calls that failed since the last success. Calls that ran at the same time count as one.
        failures: u32,
        /// When the last of these calls failed.
        failed_at: Duration,
    },
    /// Calls do not go to Redis.
    Open,
}

impl CircuitBreaker {
    pub(super) fn new() -> Self {
        Self::Closed { failures: 0, failed_at: Duration::ZERO }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    pub(super) fn succeeded(&mut self) {
        // While the breaker is open, such an answer belongs to an earlier call and says nothing about the present.
        if let Self::Closed { failures, .. } = self {
            *failures = 0;
        }
    }

    /// A call that began at `began` failed at `now`. Returns whether this opened the breaker.
    pub(super) fn failed(&mut self, began: Duration, now: Duration) -> bool {
        let Self::Closed { failures, failed_at } = self else { return false };
        // Calls that waited through the same stall are one failure, however many they are.
        if *failures > 0 && began < *failed_at {
            return false;
        }
        *failures += 1;
        *failed_at = now;
        *failures >= FAILURES && self.open()
    }

    /// No connection could be made. Returns whether this opened the breaker.
    pub(super) fn refused(&mut self) -> bool {
        self.is_closed() && self.open()
    }

    pub(super) fn close(&mut self) {
        *self = Self::new();
    }

    fn open(&mut self) -> bool {
        *self = Self::Open;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_third_failure_in_a_row_opens_and_an_answer_between_them_resets_the_count() {
        let mut breaker = CircuitBreaker::new();
        assert!(!breaker.failed(at(0), at(250)));
        assert!(!breaker.failed(at(250), at(500)));
        breaker.succeeded();
        assert!(!breaker.failed(at(600), at(850)));
        assert!(!breaker.failed(at(850), at(1100)));
        assert!(breaker.is_closed());
        assert!(breaker.failed(at(1100), at(1350)));
        assert!(!breaker.is_closed());
    }

    #[test]
    fn a_thousand_calls_that_wait_through_one_stall_are_one_failure() {
        let mut breaker = CircuitBreaker::new();
        for began in 0..1000 {
            assert!(!breaker.failed(at(began / 5), at(250 + began / 5)));
        }
        assert!(breaker.is_closed());
    }

    #[test]
    fn a_refused_connection_opens_at_once() {
        let mut breaker = CircuitBreaker::new();
        assert!(breaker.refused());
        assert!(!breaker.is_closed());
        assert!(!breaker.refused(), "it opens once");
    }

    #[test]
    fn an_answer_from_before_does_not_close_it_and_a_probe_does() {
        let mut breaker = CircuitBreaker::new();
        breaker.refused();
        breaker.succeeded();
        assert!(!breaker.is_closed());
        breaker.close();
        assert!(breaker.is_closed());
    }
}
