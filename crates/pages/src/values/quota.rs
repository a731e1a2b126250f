//! How many times a client may do something within a sliding window (spec §8).
//!
//! An attempt exactly `window` ago no longer counts, and refused attempts never do.

use std::{cmp::Ordering, collections::VecDeque, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// At least 1.
    pub limit: u32,
    pub window: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub admitted: bool,
    pub quota: Quota,
    pub remaining: u32,
    /// Until the oldest attempt leaves the window.
    pub more_after: Duration,
}

/// The times of admitted attempts, oldest first, since any fixed instant.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Nanoseconds, half of a `Duration`: a network's window may hold 600 000.
    times: VecDeque<u64>,
}

impl Counted {
    pub fn bytes(&self) -> usize {
        self.times.capacity() * size_of::<u64>()
    }

    pub fn push(&mut self, at: Duration) {
        self.times.push_back(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
    }

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
    /// Time never goes back: `now` is at least the newest attempt.
    pub fn decide(&self, counted: &mut Counted, now: Duration) -> Decision {
        let admitted = self.has_room(counted, now);
        if admitted {
            counted.push(latest(counted, now));
        }
        self.decision(admitted, counted, now)
    }

    /// Also drops old attempts.
    pub fn has_room(&self, counted: &mut Counted, now: Duration) -> bool {
        let now = latest(counted, now);
        while counted.times.front().is_some_and(|&oldest| self.has_left(Duration::from_nanos(oldest), now)) {
            counted.times.pop_front();
        }
        counted.times.len() < as_count(self.limit)
    }

    pub fn decision(&self, admitted: bool, counted: &Counted, now: Duration) -> Decision {
        let now = latest(counted, now);
        let limit = as_count(self.limit);
        let times = &counted.times;
        let remaining = u32::try_from(limit.saturating_sub(times.len())).unwrap_or(u32::MAX);
        // After the limit was lowered, several must leave first.
        let must_leave = times.len().saturating_sub(limit);
        let leaves_at = times.get(must_leave).map_or(Duration::ZERO, |&at| Duration::from_nanos(at) + self.window);
        let more_after = leaves_at.saturating_sub(now);
        Decision { admitted, quota: *self, remaining, more_after }
    }

    pub fn has_left(&self, at: Duration, now: Duration) -> bool {
        at + self.window <= now
    }
}

fn latest(counted: &Counted, now: Duration) -> Duration {
    counted.newest().map_or(now, |newest| newest.max(now))
}

impl Decision {
    /// The client sees its own quota; the most restrictive window gives the other numbers.
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

    /// At least 1: a client that waits exactly this long gets through.
    pub fn retry_after_seconds(&self) -> u64 {
        whole_seconds_up(self.more_after).max(1)
    }
}

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
    fn a_client_sees_its_own_quota_and_the_narrowest_numbers() {
        fn decision(limit: u32, remaining: u32, seconds: u64) -> Decision {
            let quota = Quota { limit, window: HOUR };
            Decision { admitted: true, quota, remaining, more_after: Duration::from_secs(seconds) }
        }

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
