//! Sliding windows that all replicas share in Redis, and local ones for when Redis does not answer.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use prometheus_client::metrics::gauge::Gauge;
use redis::{ErrorKind, RedisError, RedisResult, Script, aio::MultiplexedConnection};
use tokio::sync::watch;

use super::link::{Alone, Link};
use super::memory::MemoryRateLimiter;
use super::settings::{OpenError, RedisSettings};
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::random::{Random, hex_id};
use handbill_pages::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use handbill_pages::values::slug::{Reservation, Reserved};
use handbill_pages::values::{client::Window, quota::Decision};

/// Twice the longest create.
const RESERVED_FOR_MILLIS: u32 = 10_000;

/// Counts by Redis's clock.
pub struct RedisLimiter {
    link: Arc<Link>,
    script: Script,
    random: Random,
    local: MemoryRateLimiter,
}

impl RedisLimiter {
    /// Connects in the background; fails only if the settings cannot be used. The caller must be within a Tokio
    /// runtime.
    ///
    /// `fallback` is the number of servers that are lost. Local counts take at most `local_bytes`.
    pub fn open(
        settings: &RedisSettings,
        local_bytes: usize,
        clock: SharedClock,
        random: Random,
        fallback: Gauge,
    ) -> Result<Self, OpenError> {
        let link = Link::open(settings, fallback)?;
        let script = Script::new(include_str!("sliding_window.lua"));
        Ok(Self { link, script, random, local: MemoryRateLimiter::within(local_bytes, clock) })
    }

    pub fn alone(&self) -> watch::Receiver<Alone> {
        self.link.alone.subscribe()
    }

    /// `id` lets a repeated call count once.
    async fn ask(
        &self,
        mut connection: MultiplexedConnection,
        keys: &[String],
        attempt: &Attempt,
        id: &str,
    ) -> RedisResult<Decision> {
        let mut call = self.script.prepare_invoke();
        for key in keys {
            call.key(key);
        }
        call.arg(id);
        for Window { quota, .. } in attempt.windows() {
            call.arg(quota.limit).arg(u64::try_from(quota.window.as_micros()).unwrap_or(u64::MAX));
        }
        let answer: Vec<u64> = call.invoke_async(&mut connection).await?;
        decision(&answer, attempt)
            .ok_or_else(|| RedisError::from((ErrorKind::UnexpectedReturnType, "the script's answer is not ours")))
    }
}

/// In braces is the slot of a Redis Cluster: one step uses one slot.
fn window_keys(attempt: &Attempt) -> Vec<String> {
    let kind = attempt.kind.name();
    let widest = attempt.wider.last().unwrap_or(&attempt.own).network;
    attempt
        .windows()
        .map(|Window { network, .. }| {
            let within = if *network == widest { String::new() } else { format!(":{network}") };
            format!("handbill:limit:{{{kind}:{widest}}}{within}")
        })
        .collect()
}

fn decision(answer: &[u64], attempt: &Attempt) -> Option<Decision> {
    let [admitted, _, counts @ ..] = answer else { return None };
    if counts.len() != 2 * attempt.windows().count() {
        return None;
    }
    let mut decisions = counts.chunks_exact(2).zip(attempt.windows()).map(|(counts, Window { quota, .. })| Decision {
        admitted: *admitted == 1,
        quota: *quota,
        remaining: u32::try_from(counts[0]).unwrap_or(u32::MAX),
        more_after: Duration::from_micros(counts[1]),
    });
    Some(decisions.next()?.restricted_by(decisions))
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    fn system(&self) -> Option<&'static str> {
        Some("redis")
    }

    async fn check(&self, attempt: Attempt) -> Decision {
        if attempt.kind == LimitKind::Preview {
            return self.local.check(attempt).await;
        }
        let (keys, id) = (window_keys(&attempt), hex_id(&self.random));
        let asked = self.link.call(&keys[0], |connection| self.ask(connection, &keys, &attempt, &id)).await;
        let Some(decision) = asked else { return self.local.check(attempt).await };
        if decision.admitted {
            self.local.count(&attempt);
        }
        decision
    }

    async fn reserve(&self, Reservation { slug, owner }: &Reservation) -> Reserved {
        let (link, key) = (Arc::clone(&self.link), format!("handbill:slug:{slug}"));
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(owner).arg("NX").arg("GET").arg("PX").arg(RESERVED_FOR_MILLIS);
        // On its own, since `redis` drops a command whose answer nobody awaits.
        let reserving = tokio::spawn(async move {
            link.try_call(&key, async |mut connection| set.query_async::<Option<String>>(&mut connection).await).await
        });
        match reserving.await {
            Ok(Some(Some(before))) if before != *owner => Reserved::ByAnother,
            _ => Reserved::Unopposed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use handbill_pages::ports::rate_limiter::LimitKind;
    use handbill_pages::values::client::Client;
    use handbill_pages::values::client::windows;
    use handbill_pages::values::quota::Quota;

    fn keys(address: &str) -> Vec<String> {
        let client = Client::from(address.parse::<IpAddr>().unwrap());
        let windows = windows(&[], Quota { limit: 1, window: Duration::from_secs(1) }, client);
        window_keys(&Attempt::within(LimitKind::Create, windows).unwrap())
    }

    #[test]
    fn the_windows_of_one_decision_share_their_hash_tag() {
        assert_eq!(keys("192.0.2.7"), ["handbill:limit:{create:192.0.2.7/32}"]);
        let expected = ["handbill:limit:{create:2001:db8::/48}:2001:db8::/64", "handbill:limit:{create:2001:db8::/48}"];
        assert_eq!(keys("2001:db8::1"), expected);
    }
}
