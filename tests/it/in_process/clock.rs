//! A clock that stands still until the test moves it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handbill_pages::ports::clock::Clock;
use handbill_pages::values::timestamp::UnixMillis;

/// The time at which every test starts: 2026-11-21T04:30:00.123Z.
const START: i64 = 1_795_235_400_123;

/// A wall clock and a monotonic time. Both advance together, and only the wall clock can be set back.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    /// The monotonic time, and how far the wall clock is behind it.
    times: Mutex<(Duration, Duration)>,
}

impl TestClock {
    /// A clock at its start.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Lets `duration` pass.
    pub(crate) fn advance(&self, duration: Duration) {
        self.times().0 += duration;
    }

    /// Sets the wall clock back, as an operator or a time server may at any moment.
    pub(crate) fn set_back(&self, duration: Duration) {
        self.times().1 += duration;
    }

    fn times(&self) -> MutexGuard<'_, (Duration, Duration)> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixMillis {
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap();
        let (passed, back) = *self.times();
        UnixMillis::new(START + millis(passed) - millis(back))
    }

    fn monotonic(&self) -> Duration {
        self.times().0
    }
}
