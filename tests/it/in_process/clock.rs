//! A clock that stands still until the test moves it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handbill_pages::ports::clock::Clock;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_test_support::histories::workload::Chance;

/// The time at which every test starts: 2026-11-21T04:30:00.123Z.
const START: i64 = 1_795_235_400_123;

/// A wall clock and a monotonic time. Both advance together, and only the wall clock can be set back.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    /// The monotonic time, and how far the wall clock is behind it.
    times: Mutex<(Duration, Duration)>,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self::default()
    }

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

const SEED: u64 = 0x0068_616e_6462_696c;

/// The same bytes for every test, in the order in which they are drawn.
pub(crate) enum TestRng {
    Running(Chance),
    Stuck,
}

impl TestRng {
    pub(crate) fn new() -> Self {
        Self::Running(Chance::new(SEED))
    }

    /// Starts over: the next numbers are the first ones again.
    pub(crate) fn rewind(&mut self) {
        *self = Self::new();
    }

    /// Yields zeros from now on, so that every suffix drawn is the same.
    pub(crate) fn stick(&mut self) {
        *self = Self::Stuck;
    }
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        match self {
            Self::Stuck => bytes.fill(0),
            Self::Running(chance) => bytes.fill_with(|| chance.below(256).to_le_bytes()[0]),
        }
    }
}
