//! Sliding windows that all replicas share, and windows of this replica alone for when Redis does not answer. Every key in
//! Redis is named here; the part in braces decides the slot in a Redis Cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{ErrorKind, RedisResult, Script};

use super::connection::RedisConnection;
use super::memory::MemoryRateLimiter;
use super::metrics::LimiterMetrics;
use super::pool::Connection;
use crate::domain::network_limits::{NetworkLimits, Window};
use crate::domain::quota::Decision;
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};
use crate::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};

/// Counts attempts in Redis, by Redis's clock. While Redis is unreachable it counts in this process.
pub struct RedisLimiter {
    redis: Arc<RedisConnection>,
    script: Script,
    random: Random,
    metrics: LimiterMetrics,
    networks: NetworkLimits,
    local: MemoryRateLimiter,
}

impl RedisLimiter {
    pub(super) fn new(
        redis: Arc<RedisConnection>,
        clock: SharedClock,
        random: Random,
        metrics: LimiterMetrics,
        networks: NetworkLimits,
        local_bytes: usize,
    ) -> Self {
        let script = Script::new(include_str!("sliding_window.lua"));
        let local = MemoryRateLimiter::within(local_bytes, clock).limiting_networks(networks.clone());
        Self { redis, script, random, metrics, networks, local }
    }

    /// The decision on the attempt `id` in `windows`, of which the first is the client's own.
    async fn ask(
        &self,
        mut connection: Connection,
        kind: LimitKind,
        windows: &[Window],
        id: &str,
    ) -> RedisResult<Decision> {
        let mut call = self.script.prepare_invoke();
        for key in window_keys(kind, windows) {
            call.key(key);
        }
        call.arg(id);
        for Window { quota, .. } in windows {
            call.arg(quota.limit).arg(u64::try_from(quota.window.as_micros()).unwrap_or(u64::MAX));
        }
        let answer: Vec<u64> = call.invoke_async(&mut connection).await?;
        decision(&answer, windows)
            .ok_or_else(|| (ErrorKind::UnexpectedReturnType, "the script's answer is not ours").into())
    }
}

/// The keys of `windows`, which are those of one decision. All of them are in the slot of the widest network, because only
/// keys in one slot can be used in one atomic step.
fn window_keys(limited: LimitKind, windows: &[Window]) -> Vec<String> {
    let Some(widest) = windows.last() else { return Vec::new() };
    let (kind, widest) = (limited.name(), widest.network);
    let key = |Window { network, .. }: &Window| {
        let within = if *network == widest { String::new() } else { format!(":{network}") };
        format!("handbill:limit:{{{kind}:{widest}}}{within}")
    };
    windows.iter().map(key).collect()
}

/// The key that the process called `name` writes to see whether Redis takes writes.
pub(super) fn probe_key(name: &str) -> String {
    format!("handbill:probe:{{{name}}}")
}

fn decision(answer: &[u64], windows: &[Window]) -> Option<Decision> {
    let [admitted, _, counts @ ..] = answer else { return None };
    if counts.len() != 2 * windows.len() {
        return None;
    }
    let mut decisions = counts.chunks_exact(2).zip(windows).map(|(counts, Window { quota, .. })| Decision {
        admitted: *admitted == 1,
        quota: *quota,
        remaining: u32::try_from(counts[0]).unwrap_or(u32::MAX),
        more_after: Duration::from_micros(counts[1]),
    });
    Some(decisions.next()?.restricted_by(decisions))
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn check(&self, attempt: Attempt) -> Decision {
        let windows = self.networks.windows(attempt.quota, attempt.client, attempt.subject);
        let id = hex_id(&self.random);
        let ask = |connection| self.ask(connection, attempt.kind, &windows, &id);
        if let Some(decision) = self.redis.call(ask).await {
            if decision.admitted {
                self.local.count(attempt);
            }
            decision
        } else {
            self.metrics.fallback_decisions.inc();
            self.local.check(attempt).await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::domain::client::Client;
    use crate::domain::quota::Quota;

    fn named(limits: &str, address: &str) -> Vec<String> {
        let quota = Quota { limit: 1, window: Duration::from_secs(1) };
        let client = Client::from(address.parse::<IpAddr>().unwrap());
        window_keys(LimitKind::Create, &limits.parse::<NetworkLimits>().unwrap().windows(quota, client, None))
    }

    #[test]
    fn the_windows_of_one_decision_have_the_widest_network_as_their_hash_tag() {
        assert_eq!(named("none", "192.0.2.7"), ["handbill:limit:{create:192.0.2.7}"]);
        assert_eq!(named("none", "2001:db8::1"), ["handbill:limit:{create:2001:db8::/64}"]);
        let expected = ["handbill:limit:{create:2001:db8::/48}:2001:db8::/64", "handbill:limit:{create:2001:db8::/48}"];
        assert_eq!(named("ipv6/48=2", "2001:db8::1"), expected);
    }
}
