//! Limits that all replicas share, in Redis: one server, a Redis Cluster, or a master that sentinels name.
//!
//! Redis has the times of admitted attempts, by limit and client, until their window has passed. It also has the slugs of
//! creates that were admitted a few seconds ago, with the beginning of their keys' hashes, so that another create which draws
//! such a slug draws again (`docs/internals/decisions/0025-slugs-are-reserved-in-redis.md`).
//!
//! # When Redis is unreachable
//!
//! No caller waits longer than [`TimeLimits::call`] for Redis. If Redis does not answer, a window in this process makes
//! the decision. This window also counts the attempts that Redis admitted through this replica, so that a client gets
//! no fresh quota. If Redis refuses a command, for example because its memory is full, the connection is kept. If it
//! takes no writes, the master is looked for again, at most once a second.
//!
//! After a refused connection, or three failures in a row, Redis is not asked at all: the metric
//! `handbill_rate_limit_fallback` is 1 and a warning says so. Once a second this replica checks in the background
//! whether Redis takes writes again, and then returns to it. Redis does not learn of attempts that were admitted
//! meanwhile.
//!
//! An attempt whose answer was lost is sent again under the same name, so it is counted once. If the second answer is
//! lost too, Redis may have counted an attempt that the replica then decides itself.
//!
//! A Redis that loses its memory forgets what it counted. A failover to a replica that lags also loses counts, because
//! Redis replicates without waiting.
//!
//! # Changed passwords and certificates
//!
//! The files of the password and the certificates are read for each new connection. A changed file needs no restart.
//!
//! # Rights that a login needs
//!
//! The keys `handbill:*` and the commands `+@connection +evalsha +script|load +time +zadd +zcard +zcount +zrange
//! +zrangebyscore +zremrangebyscore +zscore +pexpire +set`, and `+info` for a warning about evicted keys; in a cluster also `+cluster`,
//! with sentinels also `+role`.

mod circuit_breaker;
mod connection;
mod eviction;
mod limiter;
pub mod mark;
pub mod memory;
mod metrics;
mod pool;
mod settings;

use std::sync::Arc;

use handbill_core::{domain, ports};
use tokio::sync::watch;

pub use self::limiter::RedisLimiter;
pub use self::metrics::LimiterMetrics;
pub use self::settings::{OpenError, RedisMode, RedisSettings, RedisUrl, TimeLimits};

use self::connection::RedisConnection;
use self::pool::Manager;
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};

/// Checks `settings`, including the files that they name. Connects to nothing.
pub fn check(settings: &RedisSettings) -> Result<(), OpenError> {
    Manager::new(settings, TimeLimits::of_calls(settings.timeout)).map(drop)
}

pub struct Redis {
    connection: Arc<RedisConnection>,
    clock: SharedClock,
    random: Random,
    metrics: LimiterMetrics,
}

impl Redis {
    /// The Redis of `settings`. It connects in the background, because the service works without Redis. The caller must
    /// be within a Tokio runtime. `open` fails only if the settings cannot be used.
    pub fn open(
        settings: &RedisSettings,
        limits: TimeLimits,
        clock: SharedClock,
        random: Random,
        metrics: LimiterMetrics,
    ) -> Result<Self, OpenError> {
        let pool = Manager::new(settings, limits)?.into_pool();
        let probe_key = limiter::probe_key(&hex_id(&random));
        let connection = RedisConnection::open(pool, limits, Arc::clone(&clock), metrics.clone(), probe_key);
        Ok(Self { connection, clock, random, metrics })
    }

    /// Limits that all replicas share. While Redis is unreachable, what this process counts takes at most `local_bytes`.
    pub fn limiter(&self, local_bytes: usize) -> RedisLimiter {
        let (clock, random) = (Arc::clone(&self.clock), self.random.clone());
        RedisLimiter::new(Arc::clone(&self.connection), clock, random, self.metrics.clone(), local_bytes)
    }

    /// Shows whether Redis is unreachable, and notifies of each change.
    pub fn out_of_reach(&self) -> watch::Receiver<bool> {
        self.connection.out_of_reach()
    }
}
