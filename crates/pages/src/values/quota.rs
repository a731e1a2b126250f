//! How many times a client may do something within a sliding window (spec §8).
//!
//! The window is exact: at any time, at most `limit` attempts were admitted within the last `window`. An attempt
//! exactly `window` ago no longer counts. A refused attempt is not counted.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use super::reservation::Reserved;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Attempts admitted within any `window`; at least 1.
    pub limit: u32,
    pub window: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the attempt was admitted, and so counted.
    pub admitted: bool,
    pub quota: Quota,
    /// Attempts that would still be admitted now.
    pub remaining: u32,
    /// Time until more attempts than `remaining` are admitted: until the oldest counted attempt leaves the window.
    pub more_after: Duration,
    /// The fate of the slug that the attempt named.
    pub slug: Reserved,
}

/// The times of the admitted attempts of one client, oldest first, as durations since an instant of the caller's
/// choice.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// In nanoseconds: half the bytes of a `Duration`, since the window of a whole network may hold 600 000 attempts.
    times: VecDeque<u64>,
}

impl Counted {
    /// The memory for the attempts, in bytes.
    pub fn bytes(&self) -> usize {
        self.times.capacity() * size_of::<u64>()
    }

    pub fn push(&mut self, at: Duration) {
        self.times.push_back(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Removes the oldest attempts, until there are at most `limit`.
    pub fn keep_newest(&mut self, limit: u32) {
        self.times.drain(..self.times.len().saturating_sub(as_count(limit)));
    }

    pub fn newest(&self) -> Option<Duration> {
        self.times.back().copied().map(Duration::from_nanos)
    }
}

fn as_count(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

impl Quota {
    /// Decides an attempt at `now` and adds it to `counted` if it is admitted. Removes attempts that have left the
    /// window.
    ///
    /// If `now` is before the newest counted attempt, the time of that attempt is used instead, so that a clock that
    /// goes back admits nobody twice.
    pub fn decide(&self, counted: &mut Counted, now: Duration) -> Decision {
        let admitted = self.has_room(counted, now);
        if admitted {
            counted.push(latest(counted, now));
        }
        self.decision(admitted, counted, now)
    }

    /// Whether one more attempt fits into the window at `now`. Removes attempts that have left the window.
    pub fn has_room(&self, counted: &mut Counted, now: Duration) -> bool {
        let now = latest(counted, now);
        while counted.times.front().is_some_and(|&oldest| self.has_left(Duration::from_nanos(oldest), now)) {
            counted.times.pop_front();
        }
        counted.times.len() < as_count(self.limit)
    }

    /// The answer to an attempt that was `admitted` or not, where `counted` are the attempts in the window at `now`.
    pub fn decision(&self, admitted: bool, counted: &Counted, now: Duration) -> Decision {
        let now = latest(counted, now);
        let (limit, times) = (as_count(self.limit), &counted.times);
        let remaining = u32::try_from(limit.saturating_sub(times.len())).unwrap_or(u32::MAX);
        // If the limit was lowered below the number of counted attempts, several must leave before one more is
        // admitted.
        let must_leave = times.len().saturating_sub(limit);
        let leaves_at = |&at: &u64| Duration::from_nanos(at) + self.window;
        let more_after = times.get(must_leave).map_or(Duration::ZERO, |at| leaves_at(at).saturating_sub(now));
        Decision { admitted, quota: *self, remaining, more_after, slug: Reserved::NotAsked }
    }

    /// Whether an attempt admitted at `at` no longer counts at `now`.
    pub fn has_left(&self, at: Duration, now: Duration) -> bool {
        at + self.window <= now
    }
}

/// `now`, or the time of the newest counted attempt if that is later.
fn latest(counted: &Counted, now: Duration) -> Duration {
    counted.newest().map_or(now, |newest| newest.max(now))
}

impl Decision {
    /// The answer to an attempt that had to fit into several windows, where `self` is that of the client's own window and
    /// `wider` those of the networks around it. All of them have the same `admitted`.
    ///
    /// The client is told of its own quota. The other numbers are those of the window that restricts it most, so that it
    /// may rely on them.
    #[must_use]
    pub fn restricted_by(self, wider: impl IntoIterator<Item = Self>) -> Self {
        wider.into_iter().fold(self, |narrowest, next| {
            let is_narrower = match next.remaining.cmp(&narrowest.remaining) {
                Ordering::Less => true,
                Ordering::Equal => next.more_after > narrowest.more_after,
                Ordering::Greater => false,
            };
            if is_narrower { Self { quota: narrowest.quota, ..next } } else { narrowest }
        })
    }

    /// Whole seconds, rounded up and at least 1: a client that waits exactly this long gets through.
    pub fn retry_after_seconds(&self) -> u64 {
        whole_seconds_up(self.more_after).max(1)
    }
}

/// `duration` in whole seconds, rounded up.
pub fn whole_seconds_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn a_clock_that_goes_back_admits_nobody_twice() {
        let quota = Quota { limit: 1, window: HOUR };
        let mut counted = Counted::default();
        assert!(quota.decide(&mut counted, Duration::from_secs(100)).admitted);
        assert!(!quota.decide(&mut counted, Duration::ZERO).admitted);
    }

    #[test]
    fn several_windows_tell_the_client_of_its_own_quota_and_the_numbers_of_the_narrowest() {
        let decision = |limit, remaining, seconds| Decision {
            admitted: true,
            quota: Quota { limit, window: HOUR },
            remaining,
            more_after: Duration::from_secs(seconds),
            slug: Reserved::NotAsked,
        };
        let own = decision(10, 5, 60);
        assert_eq!(own.restricted_by([decision(80, 70, 10), decision(640, 600, 5)]), own);
        assert_eq!(own.restricted_by([decision(80, 3, 10)]), decision(10, 3, 10));
        let refused = [decision(80, 0, 30), decision(640, 0, 90), decision(10_240, 0, 20)];
        assert_eq!(decision(10, 0, 40).restricted_by(refused), decision(10, 0, 90), "the longest wait");
    }

    proptest! {
        #[test]
        fn the_window_decides_as_a_naive_list_of_timestamps_does(
            limit in 1u32..6,
            window in 1u64..50,
            steps in prop::collection::vec(0u64..20, 1..200),
        ) {
            let quota = Quota { limit, window: Duration::from_millis(window) };
            let mut counted = Counted::default();
            let mut admitted_at: Vec<u64> = Vec::new();
            let mut now = 0;
            for step in steps {
                now += step;
                let in_window: Vec<u64> = admitted_at.iter().copied().filter(|at| at + window > now).collect();
                let expected = in_window.len() < limit as usize;
                let decision = quota.decide(&mut counted, Duration::from_millis(now));
                prop_assert_eq!(decision.admitted, expected);
                if expected {
                    admitted_at.push(now);
                } else {
                    prop_assert_eq!(decision.more_after, Duration::from_millis(in_window[0] + window - now));
                    let mut later = counted.clone();
                    let waited = Duration::from_millis(now) + Duration::from_secs(decision.retry_after_seconds());
                    prop_assert!(quota.decide(&mut later, waited).admitted);
                }
                prop_assert!(counted.times.len() <= limit as usize);
            }
        }
    }
}
