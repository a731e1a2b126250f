//! Limits that all replicas share, in Redis: one server, a Redis Cluster, or a master that sentinels name. And the windows of one
//! process, which decide without Redis.
//!
//! Redis has the times of admitted attempts, by limit and client, until their window has passed. It also has the slugs of
//! creates that were admitted a few seconds ago, with the beginning of their keys' hashes, so that another create which draws
//! such a slug draws again (`docs/decisions.md`).
//!
//! # When Redis is unreachable
//!
//! No caller waits longer for Redis than the time limit of a call. If Redis refuses, or does not answer in time, this replica
//! decides by its own window, and by nothing else for a second. Then it looks in the background, once a second, whether Redis
//! takes writes, and asks Redis again. The metric `handbill_rate_limit_fallback` is 1 meanwhile, and a warning says so.
//!
//! The replica's own window also counts the attempts that Redis admitted through this replica, so that a client gets no fresh
//! quota. Redis does not learn of attempts that were admitted meanwhile.
//!
//! A call whose connection breaks is sent once more, on another connection and under the same name, so the attempt is counted
//! once. If that fails too, Redis may have counted an attempt that the replica then decides itself.
//!
//! A Redis that loses its memory forgets what it counted. A failover to a replica that lags also loses counts, because
//! Redis replicates without waiting.
//!
//! # Rights that a login needs
//!
//! The keys `handbill:*` and the commands `+@connection +evalsha +script|load +time +zadd +zcard +zcount +zrange
//! +zrangebyscore +zremrangebyscore +zscore +pexpire +set`; in a cluster also `+cluster`, with sentinels also `+role`.

mod connection;
mod link;
pub mod memory;
mod redis;
mod settings;

use handbill_pages::{ports, values};

pub use self::redis::RedisLimiter;
pub use self::settings::{OpenError, RedisMode, RedisSettings, RedisUrl};

/// Checks `settings`, including the files that they name. Connects to nothing.
pub fn check(settings: &RedisSettings) -> Result<(), OpenError> {
    connection::Manager::new(settings).map(drop)
}
