//! Sliding windows that all replicas share, and windows of this replica alone for when Redis does not answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{RedisResult, Script};

use super::connection::{RedisConnection, Tries};
use super::keys;
use super::pool::Connection;
use crate::backends::memory::MemoryRateLimiter;
use crate::domain::client::Client;
use crate::domain::quota::{Decision, Quota};
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};
use crate::ports::rate_limiter::{LimitKind, RateLimiter};
use crate::telemetry::metrics::Metrics;

/// Counts attempts in Redis, by Redis's clock. While Redis is unreachable it counts in this process.
pub struct RedisLimiter {
    redis: Arc<RedisConnection>,
    script: Script,
    random: Random,
    metrics: Arc<Metrics>,
    local: MemoryRateLimiter,
}

impl RedisLimiter {
    pub(super) fn new(redis: Arc<RedisConnection>, clock: SharedClock, random: Random, metrics: Arc<Metrics>) -> Self {
        let script = Script::new(include_str!("sliding_window.lua"));
        Self { redis, script, random, metrics, local: MemoryRateLimiter::new(clock) }
    }

    async fn ask(&self, mut connection: Connection, key: String, quota: Quota, attempt: &str) -> RedisResult<Decision> {
        let window = u64::try_from(quota.window.as_micros()).unwrap_or(u64::MAX);
        let mut call = self.script.key(key);
        call.arg(quota.limit).arg(window).arg(attempt);
        let (admitted, remaining, more_after, _): (u8, u32, u64, u64) = call.invoke_async(&mut connection).await?;
        Ok(Decision { admitted: admitted == 1, quota, remaining, more_after: Duration::from_micros(more_after) })
    }
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn check(&self, kind: LimitKind, quota: Quota, client: Client) -> Decision {
        let key = keys::window(kind, client);
        let attempt = hex_id(&self.random);
        let ask = |connection| self.ask(connection, key.clone(), quota, &attempt);
        if let Some(decision) = self.redis.call(Tries::Two, ask).await {
            if decision.admitted {
                self.local.count(kind, quota, client);
            }
            decision
        } else {
            self.metrics.fallback_decisions.inc();
            self.local.check(kind, quota, client).await
        }
    }
}
