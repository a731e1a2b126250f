//! The contract of `RateLimiter`, as far as it holds by any clock.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use handbill_core::domain::client::Client;
use handbill_core::domain::limit_tier::TierName;
use handbill_core::domain::network_limits::{Source, Window};
use handbill_core::domain::quota::Quota;
use handbill_core::domain::subject::Subject;
use handbill_core::ports::random::{Random, hex_id};
use handbill_core::ports::rate_limiter::{Attempt, LimitKind};

use super::super::backends::limiters_by_any_clock;

const TEN: Quota = Quota { limit: 10, window: Duration::from_hours(1) };

/// A client that no other test of this run has, since a server keeps the counts of earlier tests.
fn stranger() -> Client {
    static STRANGERS: AtomicU32 = AtomicU32::new(0x0b00_0000);
    Client::from(IpAddr::V4(Ipv4Addr::from_bits(STRANGERS.fetch_add(1, Ordering::Relaxed))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_100_attempts_at_once_exactly_the_limit_is_admitted() {
    for (name, limiter) in limiters_by_any_clock() {
        let client = stranger();
        let attempts = (0..100).map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.check(Attempt::new(LimitKind::Create, TEN, client)).await.admitted })
        });
        let admitted = join_all(attempts).await.into_iter().filter(|admitted| *admitted.as_ref().unwrap()).count();
        assert_eq!(admitted, 10, "{name}");
    }
}

#[tokio::test]
async fn the_remaining_attempts_count_down_to_nothing() {
    for (name, limiter) in limiters_by_any_clock() {
        let client = stranger();
        for left in (0..10).rev() {
            let decision = limiter.check(Attempt::new(LimitKind::Edit, TEN, client)).await;
            assert_eq!((decision.admitted, decision.remaining), (true, left), "{name}");
        }
        let decision = limiter.check(Attempt::new(LimitKind::Edit, TEN, client)).await;
        assert_eq!((decision.admitted, decision.remaining, decision.quota), (false, 0, TEN), "{name}");
    }
}

#[tokio::test]
async fn clients_and_limits_are_counted_apart() {
    for (name, limiter) in limiters_by_any_clock() {
        for _ in 0..20 {
            let client = stranger();
            for limited in [LimitKind::Create, LimitKind::Edit, LimitKind::Token, LimitKind::Preview] {
                for attempt in 0..11 {
                    let decision = limiter.check(Attempt::new(limited, TEN, client)).await;
                    assert_eq!(decision.admitted, attempt < 10, "{name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_attempt_within_a_tier_is_counted_in_each_of_its_windows_or_in_none() {
    const TWO: Quota = Quota { limit: 2, ..TEN };
    for (name, limiter) in limiters_by_any_clock() {
        // Two tiers that no earlier run has used.
        let [agents, others] = [(); 2].map(|()| TierName::parse(&hex_id(&Random::System)).unwrap());
        let check = |tier: &TierName, subject: Option<&str>| {
            let subject = subject.map(|subject| Window {
                source: Source::Subject { tier: tier.clone(), subject: Subject::named(subject).unwrap() },
                quota: TWO,
            });
            let shared = Window { source: Source::Tier(tier.clone()), quota: TEN };
            let windows = subject.into_iter().chain([shared]).collect();
            limiter.check(Attempt::within(LimitKind::Create, windows).unwrap())
        };
        for attempt in 0..5 {
            let decision = check(&agents, Some("ada")).await;
            assert_eq!((decision.admitted, decision.quota), (attempt < 2, TWO), "{name}");
        }
        for subject in ["b", "c", "d"] {
            let [first, second] = [check(&agents, Some(subject)).await, check(&agents, Some(subject)).await];
            assert!(first.admitted && second.admitted, "{name}");
        }
        // Eight attempts were admitted. Two more are made by no subject.
        assert_eq!(check(&agents, None).await.remaining, 1, "{name}");
        assert!(check(&agents, None).await.admitted, "{name}");
        let refused = check(&agents, Some("f")).await;
        assert_eq!((refused.admitted, refused.remaining, refused.quota), (false, 0, TWO), "{name}");
        assert!(!check(&agents, None).await.admitted, "{name}");
        assert!(check(&others, Some("ada")).await.admitted, "{name}: a subject is one of its tier");
    }
}
