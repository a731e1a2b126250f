//! Rate limits that all replicas share in Redis, and windows of one process, which decide without Redis.
//!
//! Redis has the times of admitted attempts, and the slugs of recent creates, so that another create draws another slug
//! (`docs/decisions.md`).
//!
//! # When Redis is lost
//!
//! If a server (in a Redis Cluster: a master) fails three times in a row, this replica decides alone for its clients, and
//! checks once a second whether it takes writes. A single failure is decided alone too. Local windows also count what Redis
//! admitted through this replica; Redis never learns what a replica admitted alone.
//!
//! # Rights that a login needs
//!
//! The keys `handbill:*` and the commands `+@connection +evalsha +script|load +time +zadd +zcard +zcount +zrange
//! +zrangebyscore +zremrangebyrank +zscore +pexpire +set`; in a cluster also `+cluster|slots`, with sentinels also `+role`.

mod connection;
mod link;
pub mod memory;
mod redis;
mod server;
mod settings;

pub use self::link::Alone;
pub use self::redis::RedisLimiter;
pub use self::settings::{OpenError, RedisMode, RedisSettings, RedisUrl};

/// Reads the files, and connects to nothing.
pub fn check(settings: &RedisSettings) -> Result<(), OpenError> {
    let (settings, addresses) = link::check(settings)?;
    connection::Manager::pool(&settings, addresses).map(drop)
}
