//! A clock that stands still until the test moves it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::Clock;

/// The time at which every test starts: 2026-11-21T04:30:00.123Z.
const START: i64 = 1_795_235_400_123;

/// Both of its times advance together, and only by [`TestClock::advance`].
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    advanced: Mutex<Duration>,
}

impl TestClock {
    /// A clock at its start.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Lets `duration` pass.
    pub(crate) fn advance(&self, duration: Duration) {
        *self.advanced() += duration;
    }

    fn advanced(&self) -> MutexGuard<'_, Duration> {
        self.advanced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixMillis {
        UnixMillis::new(START.saturating_add(i64::try_from(self.monotonic().as_millis()).unwrap_or(i64::MAX)))
    }

    fn monotonic(&self) -> Duration {
        *self.advanced()
    }
}
