//! Sliding windows that all replicas share in Redis, and local ones for when Redis does not answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prometheus_client::metrics::gauge::Gauge;
use redis::{ErrorKind, RedisError, RedisResult, Script};
use tokio::sync::watch;

use super::connection::Connection;
use super::connection::Link;
use super::memory::MemoryRateLimiter;
use super::settings::{OpenError, RedisMode, RedisSettings};
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};
use crate::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use crate::values::client::Window;
use crate::values::quota::Decision;
use crate::values::slug::{Reservation, Reserved, Slug};

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
    /// `fallback` is 1 while Redis is unreachable. Local counts take at most `local_bytes`.
    pub fn open(
        settings: &RedisSettings,
        local_bytes: usize,
        clock: SharedClock,
        random: Random,
        fallback: Gauge,
    ) -> Result<Self, OpenError> {
        let link = Link::open(settings, fallback, format!("handbill:probe:{{{}}}", hex_id(&random)))?;
        let script = Script::new(include_str!("sliding_window.lua"));
        Ok(Self { link, script, random, local: MemoryRateLimiter::within(local_bytes, clock) })
    }

    pub fn is_down(&self) -> watch::Receiver<bool> {
        self.link.is_down.subscribe()
    }

    /// `id` lets a repeated call count once.
    async fn ask(&self, mut connection: Connection, attempt: &Attempt, id: &str) -> RedisResult<Decision> {
        let mut call = self.script.prepare_invoke();
        for key in window_keys(attempt) {
            call.key(key);
        }
        call.arg(id);
        if let Some(Reservation { slug, owner }) = self.reserved_with(attempt) {
            call.key(slug_key(slug)).arg(owner).arg(RESERVED_FOR_MILLIS);
        } else {
            call.arg("").arg(0);
        }
        for Window { quota, .. } in attempt.windows() {
            call.arg(quota.limit).arg(u64::try_from(quota.window.as_micros()).unwrap_or(u64::MAX));
        }
        let answer: Vec<u64> = connection.invoke(&call).await?;
        let (slug, decision) = decision(&answer, attempt)
            .ok_or_else(|| RedisError::from((ErrorKind::UnexpectedReturnType, "the script's answer is not ours")))?;
        Ok(if self.reserved_with(attempt).is_some() { Decision { slug, ..decision } } else { decision })
    }

    /// In a Redis Cluster the slug is in another slot than the windows.
    fn reserved_with<'a>(&self, attempt: &'a Attempt) -> Option<&'a Reservation> {
        attempt.slug.as_ref().filter(|_| self.link.pool.manager().mode != RedisMode::Cluster)
    }
}

/// In braces is the slot of a Redis Cluster: one step uses one slot.
fn window_keys(attempt: &Attempt) -> Vec<String> {
    let kind = attempt.kind.name();
    let widest = attempt.wider.last().unwrap_or(&attempt.own).network;
    let key = |Window { network, .. }: &Window| {
        let within = if *network == widest { String::new() } else { format!(":{network}") };
        format!("handbill:limit:{{{kind}:{widest}}}{within}")
    };
    attempt.windows().map(key).collect()
}

fn slug_key(slug: &Slug) -> String {
    format!("handbill:slug:{slug}")
}

fn decision(answer: &[u64], attempt: &Attempt) -> Option<(Reserved, Decision)> {
    let [admitted, _, by_another, counts @ ..] = answer else { return None };
    if counts.len() != 2 * attempt.windows().count() {
        return None;
    }
    let mut decisions = counts.chunks_exact(2).zip(attempt.windows()).map(|(counts, Window { quota, .. })| Decision {
        admitted: *admitted == 1,
        quota: *quota,
        remaining: u32::try_from(counts[0]).unwrap_or(u32::MAX),
        more_after: Duration::from_micros(counts[1]),
        slug: Reserved::NotAsked,
    });
    let slug = if *by_another == 1 { Reserved::ByAnother } else { Reserved::Unopposed };
    Some((slug, decisions.next()?.restricted_by(decisions)))
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
        let id = hex_id(&self.random);
        let Some(decision) = self.link.call(|connection| self.ask(connection, &attempt, &id)).await else {
            return self.local.check(attempt).await;
        };
        if decision.admitted {
            self.local.count(&attempt);
        }
        decision
    }

    async fn reserve(&self, Reservation { slug, owner }: &Reservation) -> Reserved {
        let mut set = redis::cmd("SET");
        set.arg(slug_key(slug)).arg(owner).arg("NX").arg("GET").arg("PX").arg(RESERVED_FOR_MILLIS);
        let ask = async |mut connection: Connection| match connection.query::<Option<String>>(&set).await {
            Err(error) if error.code().is_some() => Ok(None),
            answer => answer,
        };
        match self.link.call(ask).await.flatten() {
            Some(before) if before != *owner => Reserved::ByAnother,
            _ => Reserved::Unopposed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::ports::rate_limiter::LimitKind;
    use crate::values::client::Client;
    use crate::values::client::windows;
    use crate::values::quota::Quota;

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
