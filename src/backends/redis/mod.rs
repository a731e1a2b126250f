//! Limits and reservations that all replicas share, in Redis: one server, a Redis Cluster, or a master that sentinels
//! name.
//!
//! | part | what it keeps in Redis | for how long |
//! |---|---|---|
//! | [`RedisLimiter`] | the times of admitted attempts, by limit and client | until the window has passed |
//! | [`RedisReservations`] | slugs of creates in flight | until released, or 30 s |
//!
//! # When Redis is out of reach
//!
//! Nobody waits longer than [`TimeLimits::call`] for Redis. A decision that got no answer is made by a window in this process,
//! which also counts what Redis admitted through this replica, so that a client does not begin anew. After a refused
//! connection, or three failures in a row, Redis is not asked at all: the metric `handbill_rate_limit_fallback` is 1 and
//! a warning says so. Once a second this replica looks, in the background, whether Redis takes writes again; then it
//! returns by itself. What was admitted meanwhile is not told to Redis.
//!
//! An attempt whose answer was lost is asked again under the same name and so counted once. When the second answer is
//! lost too, Redis may have counted the attempt that the replica decided.
//!
//! A Redis that loses its memory forgets what it counted, as does a failover to a replica that lags: Redis replicates
//! without waiting.
//!
//! # What a login must be allowed
//!
//! The keys `handbill:*` and the commands `+@connection +evalsha +script|load +time +zadd +zcard +zrange +zrangebyscore
//! +zremrangebyscore +zscore +pexpire +set +get +del`; in a cluster also `+cluster`, with sentinels also `+role`.

mod circuit_breaker;
mod limiter;
mod link;
mod reservations;
mod topology;

use std::sync::Arc;

use tokio::sync::watch;

pub use self::limiter::RedisLimiter;
pub use self::link::TimeLimits;
pub use self::reservations::RedisReservations;
pub use self::topology::OpenError;

use self::link::Link;
use self::topology::Topology;
use crate::config::RedisSettings;
use crate::domain::client::Client;
use crate::domain::slug::Slug;
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};
use crate::ports::rate_limiter::LimitKind;
use crate::telemetry::metrics::Metrics;

/// A way to Redis, from which the backends are made that share it.
pub struct Redis {
    link: Arc<Link>,
    clock: SharedClock,
    random: Random,
    metrics: Arc<Metrics>,
}

impl Redis {
    /// The Redis of `settings`. It begins to connect, and does not wait: the service goes on without Redis. To be
    /// called within a Tokio runtime. Fails only where the settings make no sense.
    pub fn open(
        settings: &RedisSettings,
        clock: SharedClock,
        random: Random,
        metrics: Arc<Metrics>,
    ) -> Result<Self, OpenError> {
        Self::open_with_limits(settings, TimeLimits::default(), clock, random, metrics)
    }

    /// As [`Redis::open`], with other time limits.
    pub fn open_with_limits(
        settings: &RedisSettings,
        limits: TimeLimits,
        clock: SharedClock,
        random: Random,
        metrics: Arc<Metrics>,
    ) -> Result<Self, OpenError> {
        let topology = Arc::new(Topology::of(settings, limits)?);
        let probe_key = probe_key(&hex_id(&random));
        let link = Link::open(topology, limits, Arc::clone(&clock), Arc::clone(&metrics), probe_key);
        Ok(Self { link, clock, random, metrics })
    }

    /// Limits that all replicas share.
    pub fn limiter(&self) -> RedisLimiter {
        let (clock, random) = (Arc::clone(&self.clock), self.random.clone());
        RedisLimiter::new(Arc::clone(&self.link), clock, random, Arc::clone(&self.metrics))
    }

    /// Reservations that all replicas see.
    pub fn reservations(&self) -> RedisReservations {
        RedisReservations::new(Arc::clone(&self.link), hex_id(&self.random))
    }

    /// Whether Redis is out of reach, and when that changes.
    pub fn out_of_reach(&self) -> watch::Receiver<bool> {
        self.link.out_of_reach()
    }
}

// Every key there is. What stands in braces decides the slot in a Redis Cluster.

/// The window of `client`.
fn window_key(limited: LimitKind, client: Client) -> String {
    format!("handbill:limit:{{{}:{client}}}", limited.name())
}

/// The reservation of `slug`.
fn reservation_key(slug: &Slug) -> String {
    format!("handbill:reservation:{{{slug}}}")
}

/// What the process called `name` writes to see whether it can.
fn probe_key(name: &str) -> String {
    format!("handbill:probe:{{{name}}}")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_window_s_key_names_the_limit_and_the_client_as_its_hash_tag() {
        let client = |address: &str| Client::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(window_key(LimitKind::Create, client("192.0.2.7")), "handbill:limit:{create:192.0.2.7}");
        assert_eq!(window_key(LimitKind::Edit, client("2001:db8::1")), "handbill:limit:{edit:2001:db8::/64}");
    }
}
