//! Limits how often a warning is logged.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Allows a warning at most once in each pause.
#[derive(Debug)]
pub struct LogThrottle {
    pause: Duration,
    /// When a warning was last allowed, on a monotonic clock.
    last: Mutex<Option<Duration>>,
}

impl LogThrottle {
    /// Allows the first warning, and then one after each `pause`.
    pub const fn new(pause: Duration) -> Self {
        Self { pause, last: Mutex::new(None) }
    }

    /// Whether a warning may be logged at `now`, which is a monotonic time. Only one of several concurrent calls is
    /// allowed.
    pub fn allow(&self, now: Duration) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let allow = last.is_none_or(|last| now.saturating_sub(last) >= self.pause);
        if allow {
            *last = Some(now);
        }
        allow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_allows_the_first_and_one_after_each_pause() {
        let throttle = LogThrottle::new(Duration::from_mins(1));
        let allows = |seconds| throttle.allow(Duration::from_secs(seconds));
        assert_eq!([5, 5, 64, 65, 66, 124, 125].map(allows), [true, false, false, true, false, false, true]);
    }
}
