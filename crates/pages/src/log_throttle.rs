//! Limits how often a warning is logged.

use std::{mem, time::Duration};

use parking_lot::Mutex;

#[derive(Debug)]
pub struct LogThrottle {
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Monotonic.
    last: Option<Duration>,
    /// Warnings left out since then.
    left_out: u64,
}

impl LogThrottle {
    pub const fn new(pause: Duration) -> Self {
        Self { pause, state: Mutex::new(State { last: None, left_out: 0 }) }
    }

    /// `now` is monotonic.
    pub fn allow(&self, now: Duration) -> bool {
        self.allow_counted(now).is_some()
    }

    /// The number of warnings left out since the last one.
    pub fn allow_counted(&self, now: Duration) -> Option<u64> {
        let mut state = self.state.lock();
        if state.last.is_none_or(|last| now.saturating_sub(last) >= self.pause) {
            state.last = Some(now);
            return Some(mem::take(&mut state.left_out));
        }
        state.left_out += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_allows_the_first_and_one_after_each_pause() {
        let throttle = LogThrottle::new(Duration::from_mins(1));
        let allowed = [5, 5, 64, 65, 66, 124, 125].map(|seconds| throttle.allow(Duration::from_secs(seconds)));
        assert_eq!(allowed, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn it_counts_what_it_leaves_out() {
        let throttle = LogThrottle::new(Duration::from_mins(1));
        let counted = [5, 6, 64, 65, 66, 125, 185].map(|seconds| throttle.allow_counted(Duration::from_secs(seconds)));
        assert_eq!(counted, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }
}
