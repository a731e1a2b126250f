//! Warnings that must not fill the log, however often there is reason for one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Says yes at most once in a while.
#[derive(Debug)]
pub struct Seldom {
    pause: Duration,
    /// When it last said yes, by a clock that never goes back.
    last: Mutex<Option<Duration>>,
}

impl Seldom {
    /// Leaves at least `pause` between one yes and the next. The first question is answered yes.
    pub const fn new(pause: Duration) -> Self {
        Self { pause, last: Mutex::new(None) }
    }

    /// Whether enough time has passed at `now`, which is a monotonic time. A yes is said to one of several who ask at once.
    pub fn is_due(&self, now: Duration) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.saturating_sub(last) >= self.pause);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_yes_at_first_and_again_after_the_pause() {
        let seldom = Seldom::new(Duration::from_mins(1));
        let says = |seconds| seldom.is_due(Duration::from_secs(seconds));
        assert_eq!([5, 5, 64, 65, 66, 124, 125].map(says), [true, false, false, true, false, false, true]);
    }
}
