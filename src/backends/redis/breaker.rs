//! When calls to Redis are spared: a circuit breaker, as a pure value.
//!
//! ```text
//! closed ── a refused connection, or failures one after the other ──► open ── a probe succeeded ──► closed
//! ```
//!
//! While it is open no call waits for Redis. One probe at a time looks whether Redis is back.

use std::time::Duration;

/// Failed calls, one after the other, that open the breaker. One slow call is no outage.
const FAILURES: u32 = 3;

/// How long after opening, and after each probe that failed, the next probe begins.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Whether calls go to Redis. Times are durations since one instant, by a clock that never goes back.
#[derive(Debug)]
pub(super) enum Breaker {
    /// They do.
    Closed {
        /// Calls that failed since the last that succeeded; those that ran at the same time are one.
        failures: u32,
        /// When the last of them was found to have failed.
        failed_at: Duration,
    },
    /// They do not.
    Open {
        /// When the next probe may begin.
        probe_at: Duration,
        /// Whether one is under way.
        probing: bool,
    },
}

/// What a caller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// Call Redis.
    Call,
    /// Do without.
    DoWithout,
    /// Do without, and begin a probe, whose outcome [`Breaker::probed`] must be told.
    DoWithoutAndProbe,
}

impl Breaker {
    /// One that is closed.
    pub(super) fn new() -> Self {
        Self::Closed { failures: 0, failed_at: Duration::ZERO }
    }

    /// What a caller is to do at `now`.
    pub(super) fn permission(&mut self, now: Duration) -> Permission {
        match self {
            Self::Closed { .. } => Permission::Call,
            Self::Open { probe_at, probing } if !*probing && *probe_at <= now => {
                *probing = true;
                Permission::DoWithoutAndProbe
            }
            Self::Open { .. } => Permission::DoWithout,
        }
    }

    /// A call got its answer.
    pub(super) fn succeeded(&mut self) {
        // When it is open, the answer is of a call from before, and says nothing about now.
        if let Self::Closed { failures, .. } = self {
            *failures = 0;
        }
    }

    /// A call that began at `began` failed at `now`. Returns whether this opened the breaker.
    pub(super) fn failed(&mut self, began: Duration, now: Duration) -> bool {
        let Self::Closed { failures, failed_at } = self else { return false };
        // Calls that waited through one and the same stall are one failure, however many they are.
        if *failures > 0 && began < *failed_at {
            return false;
        }
        *failures += 1;
        *failed_at = now;
        *failures >= FAILURES && self.open(now)
    }

    /// No connection could be made. Returns whether this opened the breaker.
    pub(super) fn refused(&mut self, now: Duration) -> bool {
        matches!(self, Self::Closed { .. }) && self.open(now)
    }

    /// The probe ended at `now`. Returns whether this closed the breaker.
    pub(super) fn probed(&mut self, succeeded: bool, now: Duration) -> bool {
        *self = if succeeded { Self::new() } else { Self::Open { probe_at: now + PROBE_INTERVAL, probing: false } };
        succeeded
    }

    fn open(&mut self, now: Duration) -> bool {
        *self = Self::Open { probe_at: now + PROBE_INTERVAL, probing: false };
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
    fn the_third_failure_in_a_row_opens_and_an_answer_between_them_starts_anew() {
        let mut breaker = Breaker::new();
        assert!(!breaker.failed(at(0), at(250)));
        assert!(!breaker.failed(at(250), at(500)));
        breaker.succeeded();
        assert!(!breaker.failed(at(600), at(850)));
        assert!(!breaker.failed(at(850), at(1100)));
        assert_eq!(breaker.permission(at(1100)), Permission::Call);
        assert!(breaker.failed(at(1100), at(1350)));
        assert_eq!(breaker.permission(at(1350)), Permission::DoWithout);
    }

    #[test]
    fn a_thousand_calls_that_wait_through_one_stall_are_one_failure() {
        let mut breaker = Breaker::new();
        for began in 0..1000 {
            assert!(!breaker.failed(at(began / 5), at(250 + began / 5)));
        }
        assert_eq!(breaker.permission(at(500)), Permission::Call);
    }

    #[test]
    fn a_refused_connection_opens_at_once() {
        let mut breaker = Breaker::new();
        assert!(breaker.refused(at(0)));
        assert_eq!(breaker.permission(at(0)), Permission::DoWithout);
        assert!(!breaker.refused(at(1)), "it opens once");
    }

    #[test]
    fn one_probe_at_a_time_begins_after_the_interval_and_its_success_alone_closes() {
        let mut breaker = Breaker::new();
        breaker.refused(at(0));
        assert_eq!(breaker.permission(at(999)), Permission::DoWithout);
        assert_eq!(breaker.permission(at(1000)), Permission::DoWithoutAndProbe);
        assert_eq!(breaker.permission(at(5000)), Permission::DoWithout);
        assert!(!breaker.probed(false, at(5000)));
        assert_eq!(breaker.permission(at(5999)), Permission::DoWithout);
        assert_eq!(breaker.permission(at(6000)), Permission::DoWithoutAndProbe);
        breaker.succeeded();
        assert_eq!(breaker.permission(at(6001)), Permission::DoWithout, "an answer from before does not close it");
        assert!(breaker.probed(true, at(6002)));
        assert_eq!(breaker.permission(at(6002)), Permission::Call);
    }
}
