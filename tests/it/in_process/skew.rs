//! A wall clock that can be set back, beside a monotonic time that is not affected.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::Clock;

use super::clock::TestClock;

/// A [`TestClock`] whose wall time somebody may correct.
#[derive(Debug)]
pub(crate) struct SkewedClock {
    steady: TestClock,
    back_by: AtomicI64,
}

impl SkewedClock {
    pub(crate) fn new() -> Self {
        Self { steady: TestClock::new(), back_by: AtomicI64::new(0) }
    }

    /// Lets `duration` pass.
    pub(crate) fn advance(&self, duration: Duration) {
        self.steady.advance(duration);
    }

    /// Sets the wall clock back, as an operator or a time server may at any moment.
    pub(crate) fn set_back(&self, duration: Duration) {
        self.back_by.fetch_add(i64::try_from(duration.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> UnixMillis {
        UnixMillis::new(self.steady.now().get() - self.back_by.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.steady.monotonic()
    }
}
