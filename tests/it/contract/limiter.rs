//! The window of the limiter in memory, by a clock that the test moves, and its bounds.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use handbill::backends::memory::MemoryRateLimiter;
use handbill::domain::client::Client;
use handbill::domain::quota::Quota;
use handbill::ports::rate_limiter::{LimitKind, RateLimiter};

use super::backends::limiters;
use crate::in_process::clock::TestClock;

const HOUR: Duration = Duration::from_hours(1);
const TEN: Quota = Quota { limit: 10, window: HOUR };

fn client(number: u32) -> Client {
    Client::from(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)))
}

#[tokio::test]
async fn the_window_slides_attempt_by_attempt() {
    for limiter in limiters() {
        for _ in 0..10 {
            assert!(limiter.backend.decide(LimitKind::Create, TEN, client(1)).await.admitted, "{}", limiter.name);
            limiter.clock.advance(Duration::from_mins(1));
        }
        // Ten attempts, at minutes 0 to 9; it is minute 10.
        limiter.clock.advance(Duration::from_mins(50) - Duration::from_nanos(1));
        assert!(!limiter.backend.decide(LimitKind::Create, TEN, client(1)).await.admitted, "{}", limiter.name);
        limiter.clock.advance(Duration::from_nanos(1));
        assert!(limiter.backend.decide(LimitKind::Create, TEN, client(1)).await.admitted, "{}", limiter.name);
        assert!(!limiter.backend.decide(LimitKind::Create, TEN, client(1)).await.admitted, "{}", limiter.name);
        limiter.clock.advance(Duration::from_mins(1));
        assert!(limiter.backend.decide(LimitKind::Create, TEN, client(1)).await.admitted, "{}", limiter.name);
    }
}

#[tokio::test]
async fn a_refused_attempt_is_not_counted() {
    for limiter in limiters() {
        let quota = Quota { limit: 1, window: HOUR };
        assert!(limiter.backend.decide(LimitKind::Create, quota, client(1)).await.admitted, "{}", limiter.name);
        for _ in 0..59 {
            limiter.clock.advance(Duration::from_mins(1));
            assert!(!limiter.backend.decide(LimitKind::Create, quota, client(1)).await.admitted, "{}", limiter.name);
        }
        limiter.clock.advance(Duration::from_mins(1));
        assert!(limiter.backend.decide(LimitKind::Create, quota, client(1)).await.admitted, "{}", limiter.name);
    }
}

#[tokio::test]
async fn a_client_that_waits_as_long_as_it_is_told_gets_through_and_not_a_second_earlier() {
    for limiter in limiters() {
        for _ in 0..10 {
            limiter.backend.decide(LimitKind::Create, TEN, client(1)).await;
            limiter.clock.advance(Duration::from_millis(700));
        }
        let refused = limiter.backend.decide(LimitKind::Create, TEN, client(1)).await;
        assert!(!refused.admitted, "{}", limiter.name);
        assert_eq!(refused.retry_after_seconds(), 3593, "{}", limiter.name);
        limiter.clock.advance(Duration::from_secs(refused.retry_after_seconds() - 1));
        assert!(!limiter.backend.decide(LimitKind::Create, TEN, client(1)).await.admitted, "{}", limiter.name);
        limiter.clock.advance(Duration::from_secs(1));
        assert!(limiter.backend.decide(LimitKind::Create, TEN, client(1)).await.admitted, "{}", limiter.name);
    }
}

#[tokio::test]
async fn windows_that_ended_are_dropped_though_their_clients_never_return() {
    let clock = Arc::new(TestClock::new());
    let limiter = MemoryRateLimiter::new(clock.clone());
    for number in 0..1000 {
        limiter.decide(LimitKind::Create, TEN, client(number)).await;
    }
    assert_eq!(limiter.clients(LimitKind::Create), 1000);
    assert_eq!(limiter.clients(LimitKind::Edit), 0);
    clock.advance(HOUR);
    for _ in 0..200 {
        limiter.decide(LimitKind::Create, TEN, client(5000)).await;
    }
    assert_eq!(limiter.clients(LimitKind::Create), 1);
}

#[tokio::test]
async fn a_client_that_is_refused_does_not_keep_ended_windows_in_the_table() {
    let clock = Arc::new(TestClock::new());
    let limiter = MemoryRateLimiter::new(clock.clone());
    let quota = Quota { limit: 1, window: HOUR };
    limiter.decide(LimitKind::Create, quota, client(0)).await;
    clock.advance(Duration::from_mins(30));
    limiter.decide(LimitKind::Create, quota, client(1)).await;
    // Refused, and so still the first to end.
    limiter.decide(LimitKind::Create, quota, client(0)).await;
    clock.advance(Duration::from_mins(30));
    limiter.decide(LimitKind::Create, quota, client(1)).await;
    assert_eq!(limiter.clients(LimitKind::Create), 1);
}

#[tokio::test]
async fn a_full_table_drops_the_window_that_ends_soonest_and_keeps_the_others() {
    let clock = Arc::new(TestClock::new());
    let limiter = MemoryRateLimiter::with_capacity(clock.clone(), NonZeroUsize::new(3).unwrap());
    let quota = Quota { limit: 2, window: HOUR };
    for number in [0, 1, 2, 0] {
        limiter.decide(LimitKind::Create, quota, client(number)).await;
        clock.advance(Duration::from_secs(1));
    }
    // Client 0 came last again, so the window of client 1 ends first.
    limiter.decide(LimitKind::Create, quota, client(3)).await;
    assert_eq!(limiter.clients(LimitKind::Create), 3);
    assert!(!limiter.decide(LimitKind::Create, quota, client(0)).await.admitted);
    assert_eq!(limiter.decide(LimitKind::Create, quota, client(2)).await.remaining, 0);
    assert_eq!(limiter.decide(LimitKind::Create, quota, client(1)).await.remaining, 1);
}

#[tokio::test]
async fn a_flood_of_clients_never_fills_more_than_the_table() {
    let limiter = MemoryRateLimiter::with_capacity(Arc::new(TestClock::new()), NonZeroUsize::new(100).unwrap());
    for number in 0..10_000 {
        assert!(limiter.decide(LimitKind::Token, TEN, client(number)).await.admitted);
        assert!(limiter.clients(LimitKind::Token) <= 100);
    }
}
