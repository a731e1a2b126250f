//! Sliding windows that all replicas share, and windows of this replica alone for when Redis does not answer. Every key in
//! Redis is named here; the part in braces decides the slot in a Redis Cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, RedisResult, Script};

use super::connection::RedisConnection;
use super::memory::MemoryRateLimiter;
use super::metrics::LimiterMetrics;
use super::pool::Connection;
use crate::domain::network_limits::Window;
use crate::domain::quota::Decision;
use crate::domain::reservation::{Reservation, Reserved};
use crate::domain::slug::Slug;
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};
use crate::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};

/// How often a replica that spends the budget of all clients counts the others that do.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// How long a replica is counted after it has counted itself.
const COUNTED_FOR: Duration = Duration::from_mins(1);

/// More replicas than there are.
const MOST_REPLICAS: u64 = 1 << 20;

/// How long a slug is reserved, in milliseconds: twice as long as the longest create.
const RESERVED_FOR_MILLIS: u32 = 10_000;

/// The window in Redis in which each replica that spends the budget of all clients is an attempt.
const REPLICAS_KEY: &str = "handbill:replicas";

/// Counts attempts in Redis, by Redis's clock. While Redis is unreachable it counts in this process.
pub struct RedisLimiter {
    redis: Arc<RedisConnection>,
    script: Script,
    clock: SharedClock,
    random: Random,
    metrics: LimiterMetrics,
    local: MemoryRateLimiter,
    /// The name of this replica among others.
    name: String,
    replicas: Mutex<Replicas>,
}

/// The replicas that spend the budget of all clients, as far as they were seen.
#[derive(Default)]
struct Replicas {
    /// When they were counted last.
    counted_at: Option<Duration>,
    /// The last two counts. A replica is missing for a moment between two of its own.
    seen: [u64; 2],
}

impl RedisLimiter {
    pub(super) fn new(
        redis: Arc<RedisConnection>,
        clock: SharedClock,
        random: Random,
        metrics: LimiterMetrics,
        local_bytes: usize,
    ) -> Self {
        let script = Script::new(include_str!("sliding_window.lua"));
        let local = MemoryRateLimiter::within(local_bytes, Arc::clone(&clock));
        let name = hex_id(&random);
        Self { redis, script, clock, random, metrics, local, name, replicas: Mutex::default() }
    }

    /// Counts the replicas, this one among them, if that was long ago.
    async fn count_replicas(&self) {
        let now = self.clock.monotonic();
        {
            let mut replicas = self.replicas.lock();
            if replicas.counted_at.is_some_and(|at| now < at + COUNT_INTERVAL) {
                return;
            }
            replicas.counted_at = Some(now);
        }
        let window = u64::try_from(COUNTED_FOR.as_micros()).unwrap_or(u64::MAX);
        let ask = async |mut connection: Connection| {
            let mut call = self.script.key(REPLICAS_KEY);
            call.arg(&self.name).arg("").arg(0).arg(MOST_REPLICAS).arg(window);
            call.invoke_async::<Vec<u64>>(&mut connection).await
        };
        if let Some([_, _, _, left, _]) = self.redis.call(ask).await.as_deref() {
            let mut replicas = self.replicas.lock();
            replicas.seen = [replicas.seen[1], MOST_REPLICAS.saturating_sub(*left)];
        }
    }

    /// `attempt` with this replica's share of the budget of all clients, which the others spend too.
    fn shared_out(&self, mut attempt: Attempt) -> Attempt {
        if attempt.kind == LimitKind::AllCreates {
            let seen = self.replicas.lock().seen;
            let replicas = u32::try_from(seen[0].max(seen[1])).unwrap_or(u32::MAX).max(1);
            attempt.own.quota.limit = (attempt.own.quota.limit / replicas).max(1);
        }
        attempt
    }

    /// The decision on `attempt`, whose name is `id`.
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
        let answer: Vec<u64> = call.invoke_async(&mut connection).await?;
        let (by_another, decision) = decision(&answer, attempt)
            .ok_or_else(|| RedisError::from((ErrorKind::UnexpectedReturnType, "the script's answer is not ours")))?;
        let slug = self.reserved_with(attempt).map_or(Reserved::NotAsked, |_| reserved(by_another));
        Ok(Decision { slug, ..decision })
    }

    /// The slug that is reserved in the same step as `attempt`. In a Redis Cluster it is in another slot than the windows.
    fn reserved_with<'a>(&self, attempt: &'a Attempt) -> Option<&'a Reservation> {
        attempt.slug.as_ref().filter(|_| !self.redis.is_cluster())
    }
}

fn reserved(by_another: bool) -> Reserved {
    if by_another { Reserved::ByAnother } else { Reserved::Unopposed }
}

/// The keys of the windows of `attempt`. All of them are in the slot of the widest one, because only keys in one slot can be
/// used in one atomic step.
fn window_keys(attempt: &Attempt) -> Vec<String> {
    let (kind, widest) = (attempt.kind.name(), &attempt.wider.last().unwrap_or(&attempt.own).source);
    let key = |Window { source, .. }: &Window| {
        let within = if source == widest { String::new() } else { format!(":{source}") };
        format!("handbill:limit:{{{kind}:{widest}}}{within}")
    };
    attempt.windows().map(key).collect()
}

/// The key that names who reserves `slug`.
fn slug_key(slug: &Slug) -> String {
    format!("handbill:slug:{slug}")
}

/// The key that the process called `name` writes to see whether Redis takes writes.
pub(super) fn probe_key(name: &str) -> String {
    format!("handbill:probe:{{{name}}}")
}

/// Whether another has reserved the slug, and the decision.
fn decision(answer: &[u64], attempt: &Attempt) -> Option<(bool, Decision)> {
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
    Some((*by_another == 1, decisions.next()?.restricted_by(decisions)))
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn check(&self, attempt: Attempt) -> Decision {
        let id = hex_id(&self.random);
        let ask = |connection| self.ask(connection, &attempt, &id);
        if let Some(decision) = self.redis.call(ask).await {
            if decision.admitted {
                self.local.count(&attempt);
            }
            if attempt.kind == LimitKind::AllCreates {
                self.count_replicas().await;
            }
            decision
        } else {
            self.metrics.fallback_decisions.inc();
            self.local.check(self.shared_out(attempt)).await
        }
    }

    async fn reserve(&self, Reservation { slug, owner }: &Reservation) -> Reserved {
        let mut set = redis::cmd("SET");
        set.arg(slug_key(slug)).arg(owner).arg("NX").arg("GET").arg("PX").arg(RESERVED_FOR_MILLIS);
        let ask = async |mut connection: Connection| set.query_async::<Option<String>>(&mut connection).await;
        reserved(self.redis.call(ask).await.flatten().is_some_and(|before| before != *owner))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::domain::client::Client;
    use crate::domain::limit_tier::TierName;
    use crate::domain::network_limits::{NetworkLimits, Source};
    use crate::domain::quota::Quota;
    use crate::domain::subject::Subject;
    use crate::ports::rate_limiter::LimitKind;

    const QUOTA: Quota = Quota { limit: 1, window: Duration::from_secs(1) };

    fn keys(windows: Vec<Window>) -> Vec<String> {
        window_keys(&Attempt::within(LimitKind::Create, windows).unwrap())
    }

    fn named(limits: &str, address: &str) -> Vec<String> {
        let client = Client::from(address.parse::<IpAddr>().unwrap());
        keys(limits.parse::<NetworkLimits>().unwrap().windows(QUOTA, client))
    }

    #[test]
    fn the_windows_of_one_decision_have_the_widest_network_as_their_hash_tag() {
        assert_eq!(named("none", "192.0.2.7"), ["handbill:limit:{create:192.0.2.7}"]);
        assert_eq!(named("none", "2001:db8::1"), ["handbill:limit:{create:2001:db8::/64}"]);
        let expected = ["handbill:limit:{create:2001:db8::/48}:2001:db8::/64", "handbill:limit:{create:2001:db8::/48}"];
        assert_eq!(named("ipv6/48=2", "2001:db8::1"), expected);
    }
    #[test]
    fn the_windows_of_a_tier_are_in_its_slot_whichever_of_its_clients_is_counted() {
        let (tier, subject) = (TierName::parse("agents").unwrap(), Subject::named("ada").unwrap());
        let sources = [Source::Subject { tier: tier.clone(), subject }, Source::Tier(tier)];
        let windows = sources.map(|source| Window { source, quota: QUOTA });
        let expected =
            [format!("handbill:limit:{{create:agents}}:agents#{subject}"), "handbill:limit:{create:agents}".to_owned()];
        assert_eq!(keys(windows.into()), expected);
    }
}
