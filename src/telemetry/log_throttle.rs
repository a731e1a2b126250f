//! Warnings that must not fill the log, however often there is reason for one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Says yes at most once in a while.
#[derive(Debug)]
pub struct LogThrottle {
    pause: Duration,
    /// When it last said yes, by a clock that never goes back.
    last: Mutex<Option<Duration>>,
}

impl LogThrottle {
    /// Leaves at least `pause` between one yes and the next. The first question is answered yes.
    pub const fn new(pause: Duration) -> Self {
        Self { pause, last: Mutex::new(None) }
    }

    /// Whether enough time has passed at `now`, which is a monotonic time. A yes is said to one of several who ask at once.
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
    fn it_says_yes_at_first_and_again_after_the_pause() {
        let seldom = LogThrottle::new(Duration::from_mins(1));
        let says = |seconds| seldom.allow(Duration::from_secs(seconds));
        assert_eq!([5, 5, 64, 65, 66, 124, 125].map(says), [true, false, false, true, false, false, true]);
    }
}
