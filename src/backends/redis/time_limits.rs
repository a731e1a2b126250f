//! How long anything waits for Redis.

use std::time::Duration;

/// How long calls wait for Redis.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// Limit for the first of two tries, including the time to get a connection. On a healthy network an answer takes
    /// less than 1 ms.
    pub first_try: Duration,
    /// Limit for the second try, including the time to get a connection.
    pub second_try: Duration,
    /// Limit for making a connection, including DNS, TLS, the sentinels' answers and a cluster's slots. The attempt
    /// continues after its caller has stopped waiting.
    pub connect: Duration,
    /// Time between two probes while Redis is unreachable. No caller waits for a probe.
    pub probe_interval: Duration,
}

impl TimeLimits {
    /// Longest time that a caller waits, in total.
    pub fn call(&self) -> Duration {
        self.first_try + self.second_try
    }
}

impl Default for TimeLimits {
    /// A call gets half a second. A healthy Redis needs far less. The limit is generous because each call that is given
    /// up may let a client have one attempt too many. It is still short enough for the three calls of a create while
    /// Redis hangs and the breaker is not open yet.
    fn default() -> Self {
        let (first_try, second_try) = (Duration::from_millis(250), Duration::from_millis(250));
        Self { first_try, second_try, connect: Duration::from_secs(3), probe_interval: Duration::from_secs(1) }
    }
}
