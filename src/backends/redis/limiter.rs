//! Sliding windows that all replicas share, and this replica's own for when Redis gives no answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{RedisResult, Script};

use super::link::{Link, Tries};
use super::topology::Connection;
use super::window_key;
use crate::backends::memory::MemoryRateLimiter;
use crate::domain::client::Client;
use crate::domain::quota::{Decision, Quota};
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};
use crate::ports::rate_limiter::{LimitKind, RateLimiter};
use crate::telemetry::metrics::Metrics;

/// Counts attempts in Redis, by Redis's clock, and while it is out of reach in this process.
pub struct RedisLimiter {
    link: Arc<Link>,
    script: Script,
    random: Random,
    metrics: Arc<Metrics>,
    local: MemoryRateLimiter,
}

impl RedisLimiter {
    pub(super) fn new(link: Arc<Link>, clock: SharedClock, random: Random, metrics: Arc<Metrics>) -> Self {
        let script = Script::new(include_str!("sliding_window.lua"));
        Self { link, script, random, metrics, local: MemoryRateLimiter::new(clock) }
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
    async fn decide(&self, limited: LimitKind, quota: Quota, client: Client) -> Decision {
        let key = window_key(limited, client);
        let attempt = hex_id(&self.random);
        let ask = |connection| self.ask(connection, key.clone(), quota, &attempt);
        if let Some(decision) = self.link.call(Tries::Two, ask).await {
            if decision.admitted {
                self.local.count(limited, quota, client);
            }
            decision
        } else {
            self.metrics.fallback_decisions.inc();
            self.local.decide(limited, quota, client).await
        }
    }
}
