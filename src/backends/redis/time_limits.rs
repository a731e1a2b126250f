//! How long anything waits for Redis.

use std::time::Duration;

/// How long calls wait for Redis.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// For the first of two tries, with getting a connection. On a healthy network an answer takes less than 1 ms.
    pub first_try: Duration,
    /// For the second try, with getting a connection.
    pub second_try: Duration,
    /// For making a connection, with DNS, TLS, the sentinels' answers and a cluster's slots. It goes on after its
    /// caller has stopped waiting.
    pub connect: Duration,
    /// Between two probes while Redis is unreachable. No caller waits for a probe.
    pub probe_interval: Duration,
}

impl TimeLimits {
    /// Longest time that a caller waits, in total.
    pub fn call(&self) -> Duration {
        self.first_try + self.second_try
    }
}

impl Default for TimeLimits {
    /// Half a second for a call. A healthy Redis needs far less. The limit is generous because each call that is given
    /// up may let a client have one attempt too many. It is still short enough for the three calls of a create while
    /// Redis hangs and the breaker is not open yet.
    fn default() -> Self {
        let (first_try, second_try) = (Duration::from_millis(250), Duration::from_millis(250));
        Self { first_try, second_try, connect: Duration::from_secs(3), probe_interval: Duration::from_secs(1) }
    }
}
