//! Time as a value, so that tests control it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::values::timestamp::UnixMillis;

/// A source of the time.
pub trait Clock: Send + Sync {
    /// The wall-clock time, which may jump.
    fn now(&self) -> UnixMillis;

    /// Time since a fixed instant in the past. It never goes back while the process lives.
    fn monotonic(&self) -> Duration;
}

/// A clock that several owners read.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl SystemClock {
    /// The wall-clock time, which may jump.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    pub fn wall_time() -> UnixMillis {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis::new(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        Self::wall_time()
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
