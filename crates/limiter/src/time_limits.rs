//! How long anything waits for Redis.

use std::time::Duration;

/// Limit for making a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

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

impl TimeLimits {
    /// Limits by which a caller waits for at most `call` in total.
    ///
    /// A healthy Redis needs far less than the default of 100 ms. Each call that is given up may let a client have one
    /// attempt too many, so a longer time counts more exactly while Redis is slow.
    pub fn of_calls(call: Duration) -> Self {
        let (connect, probe_interval) = (CONNECT_TIMEOUT, PROBE_INTERVAL);
        Self { first_try: call / 2, second_try: call / 2, connect, probe_interval }
    }
}
