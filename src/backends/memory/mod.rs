//! Rate limits and slug reservations of a single process, in its memory.

mod rate_limiter;
mod slug_reservations;

pub use rate_limiter::MemoryRateLimiter;
pub use slug_reservations::MemorySlugReservations;

#[cfg(test)]
mod test_clock {
    use std::sync::Mutex;
    use std::time::Duration;

    use crate::domain::timestamp::UnixMillis;
    use crate::ports::clock::Clock;

    /// A clock that stands still until the test moves it.
    pub(super) struct TestClock(Mutex<Duration>);

    impl TestClock {
        pub(super) fn new() -> Self {
            Self(Mutex::default())
        }

        pub(super) fn advance(&self, duration: Duration) {
            *self.0.lock().unwrap() += duration;
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> UnixMillis {
            UnixMillis::new(0)
        }

        fn monotonic(&self) -> Duration {
            *self.0.lock().unwrap()
        }
    }
}
