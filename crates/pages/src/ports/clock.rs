//! Time as a value, so that tests control it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::values::timestamp::UnixMillis;

pub trait Clock: Send + Sync {
    /// The wall clock, which goes back or forth when the machine's clock is set.
    fn now(&self) -> UnixMillis;

    /// The time since a fixed instant; it never goes back.
    fn monotonic(&self) -> Duration;
}

pub type SharedClock = Arc<dyn Clock>;

#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    fn now(&self) -> UnixMillis {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis::new(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
