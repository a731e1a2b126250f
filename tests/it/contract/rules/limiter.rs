//! The contract of `RateLimiter`, as far as it holds by any clock.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use handbill_pages::ports::random::{Random, hex_id};
use handbill_pages::ports::rate_limiter::{Attempt, LimitKind};
use handbill_pages::values::client::Client;
use handbill_pages::values::client::Window;
use handbill_pages::values::quota::Quota;
use ipnet::Ipv6Net;

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
async fn an_attempt_is_counted_in_each_of_its_windows_or_in_none() {
    const TWO: Quota = Quota { limit: 2, ..TEN };
    for (name, limiter) in limiters_by_any_clock() {
        // A network that no earlier run has used.
        let site = u128::from_str_radix(&hex_id(&Random::System)[..4], 16).unwrap();
        let wider = Ipv6Net::new_assert(Ipv6Addr::from_bits((0x2001_0db9 << 96) | (site << 80)), 48);
        let check = |number: usize| {
            let own = wider.subnets(64).unwrap().nth(number).unwrap();
            let windows = [(own, TWO), (wider, TEN)];
            let windows = windows.map(|(network, quota)| Window { network: network.into(), quota }).to_vec();
            limiter.check(Attempt::within(LimitKind::Create, windows).unwrap())
        };
        for attempt in 0..5 {
            let decision = check(0).await;
            assert_eq!((decision.admitted, decision.quota), (attempt < 2, TWO), "{name}");
        }
        for client in 1..=4 {
            assert!(check(client).await.admitted && check(client).await.admitted, "{name}: refused ones took nothing");
        }
        let refused = check(5).await;
        assert_eq!((refused.admitted, refused.remaining, refused.quota), (false, 0, TWO), "{name}");
    }
}
