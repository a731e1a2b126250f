//! Notices stored times that lie in the future: a sign that a clock is wrong.
//!
//! A head has two kinds of time:
//!
//! * The database orders writes by timestamps from the clocks of its servers. A write with a lower timestamp than the
//!   stored one can be acknowledged and never seen, so a server whose clock was far ahead may make later edits vanish.
//! * The page's own times come from the clocks of replicas and grow with each change, whatever a clock says. They only
//!   look wrong.
//!
//! Both are compared with this replica's clock, which may be the wrong one itself, because it is behind.

use std::time::Duration;

use crate::domain::timestamp::UnixMillis;
use crate::metrics::{ClockLabels, ClusterMetrics};
use crate::ports::clock::SharedClock;
use handbill_core::log_throttle::LogThrottle;

/// A stored time may be ahead of this replica's clock by this much. Clocks that NTP keeps differ by milliseconds.
const TOLERATED: Duration = Duration::from_secs(5);

/// Least time between two warnings about one kind of clock. Each read of such a page would log one.
const WARNING_PAUSE: Duration = Duration::from_mins(10);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredTimes {
    /// The database's timestamp of the last write.
    pub(super) written_at: Option<UnixMillis>,
    /// The page's own time of its last change, or of its deletion.
    pub(super) changed_at: Option<UnixMillis>,
}

/// Counts times in the future, and sometimes logs them.
pub(super) struct FutureTimes {
    clock: SharedClock,
    metrics: ClusterMetrics,
    of_database: LogThrottle,
    of_replicas: LogThrottle,
}

impl FutureTimes {
    /// Compares stored times with `clock`, and counts in `metrics`.
    pub(super) fn new(clock: SharedClock, metrics: ClusterMetrics) -> Self {
        let throttle = || LogThrottle::new(WARNING_PAUSE);
        Self { clock, metrics, of_database: throttle(), of_replicas: throttle() }
    }

    /// Looks at the times of a head that was read just now.
    pub(super) fn look(&self, times: StoredTimes) {
        self.compare("database", times.written_at, &self.of_database);
        self.compare("replica", times.changed_at, &self.of_replicas);
    }

    fn compare(&self, clock: &'static str, stored: Option<UnixMillis>, throttle: &LogThrottle) {
        let ahead = |stored: UnixMillis| u64::try_from(stored.get().saturating_sub(self.clock.now().get())).ok();
        let Some(ahead) = stored.and_then(ahead).map(Duration::from_millis).filter(|ahead| *ahead > TOLERATED) else {
            return;
        };
        self.metrics.future_times.get_or_create(&ClockLabels { clock }).inc();
        if throttle.allow(self.clock.monotonic()) {
            tracing::warn!(
                clock,
                ahead_seconds = ahead.as_secs(),
                "a stored time lies in the future: a clock in the database or of a replica is ahead, or this replica's \
                 clock is behind; compare the clocks of all machines"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use crate::ports::clock::Clock;

    const NOW: i64 = 1_795_235_400_123;

    struct SetClock(AtomicI64);

    impl Clock for SetClock {
        fn now(&self) -> UnixMillis {
            UnixMillis::new(self.0.load(Ordering::Relaxed))
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn counted(now: i64, times: StoredTimes) -> [u64; 2] {
        let metrics = ClusterMetrics::default();
        let watch = FutureTimes::new(Arc::new(SetClock(AtomicI64::new(now))), metrics.clone());
        watch.look(times);
        ["database", "replica"].map(|clock| metrics.future_times.get_or_create(&ClockLabels { clock }).get())
    }

    #[test]
    fn a_time_that_is_seconds_ahead_counts_under_the_clock_that_made_it() {
        let (tolerated, ahead) = (Some(UnixMillis::new(NOW + 5_000)), Some(UnixMillis::new(NOW + 5_001)));
        let times = |written_at, changed_at| StoredTimes { written_at, changed_at };
        assert_eq!(counted(NOW, times(ahead, tolerated)), [1, 0]);
        assert_eq!(counted(NOW, times(tolerated, ahead)), [0, 1]);
        assert_eq!(counted(NOW, times(ahead, ahead)), [1, 1]);
        assert_eq!(counted(NOW, times(None, None)), [0, 0]);
        assert_eq!(counted(NOW, times(Some(UnixMillis::new(i64::MIN)), Some(UnixMillis::new(NOW)))), [0, 0]);
    }

    #[test]
    fn a_replica_whose_own_clock_is_behind_notices_it_too() {
        let now = Some(UnixMillis::new(NOW));
        let times = StoredTimes { written_at: now, changed_at: now };
        assert_eq!(counted(NOW, times), [0, 0]);
        assert_eq!(counted(NOW - 60_000, times), [1, 1]);
    }
}
