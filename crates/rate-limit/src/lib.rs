//! Rate limits that all replicas share in Redis, and windows of one process, which decide without Redis.
//!
//! Redis has the times of admitted attempts, and the slugs of recent creates, so that another create draws another slug
//! (`docs/decisions.md`).
//!
//! # When Redis is unreachable
//!
//! After an error, this replica decides alone for a second, and then checks once a second whether Redis takes writes.
//! Local windows also count what Redis admitted through this replica; Redis never learns what a replica admitted alone.
//!
//! # Rights that a login needs
//!
//! The keys `handbill:*` and the commands `+@connection +evalsha +script|load +time +zadd +zcard +zcount +zrange
//! +zrangebyscore +zremrangebyscore +zscore +pexpire +set`; in a cluster also `+cluster`, with sentinels also `+role`.

mod connection;
pub mod memory;
mod redis;
mod settings;

use handbill_pages::{ports, values};

pub use self::redis::RedisLimiter;
pub use self::settings::{OpenError, RedisMode, RedisSettings, RedisUrl};

/// Reads the files, and connects to nothing.
pub fn check(settings: &RedisSettings) -> Result<(), OpenError> {
    connection::Manager::pool(settings).map(drop)
}
