//! The contract of `RateLimiter`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures_util::future::join_all;
use handbill::domain::client::Client;
use handbill::domain::quota::Quota;
use handbill::ports::rate_limiter::LimitKind;

use crate::backends::{limiters, limiters_by_any_clock};
use crate::servers::stranger;

const HOUR: Duration = Duration::from_hours(1);
const TEN: Quota = Quota { limit: 10, window: HOUR };

fn client(number: u32) -> Client {
    Client::from(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_100_attempts_at_once_exactly_the_limit_is_admitted() {
    for (name, limiter) in limiters_by_any_clock() {
        let client = stranger();
        let attempts = (0..100).map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.decide(LimitKind::Create, TEN, client).await.admitted })
        });
        let admitted = join_all(attempts).await.into_iter().filter(|admitted| *admitted.as_ref().unwrap()).count();
        assert_eq!(admitted, 10, "{name}");
    }
}

#[tokio::test]
async fn the_window_slides_attempt_by_attempt() {
    for limiter in limiters() {
        for _ in 0..10 {
            assert!(limiter.backend.decide(LimitKind::Create, TEN, client(1)).await.admitted, "{}", limiter.name);
            limiter.clock.advance(Duration::from_mins(1));
        }
        // Ten attempts were made, at minutes 0 to 9. Now it is minute 10.
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
async fn what_remains_counts_down_to_nothing() {
    for (name, limiter) in limiters_by_any_clock() {
        let client = stranger();
        for left in (0..10).rev() {
            let decision = limiter.decide(LimitKind::Edit, TEN, client).await;
            assert_eq!((decision.admitted, decision.remaining), (true, left), "{name}");
        }
        let decision = limiter.decide(LimitKind::Edit, TEN, client).await;
        assert_eq!((decision.admitted, decision.remaining, decision.quota), (false, 0, TEN), "{name}");
    }
}

#[tokio::test]
async fn clients_and_limits_are_counted_apart() {
    for (name, limiter) in limiters_by_any_clock() {
        for _ in 0..20 {
            let client = stranger();
            for limited in [LimitKind::Create, LimitKind::Edit, LimitKind::Token] {
                for attempt in 0..11 {
                    let decision = limiter.decide(limited, TEN, client).await;
                    assert_eq!(decision.admitted, attempt < 10, "{name}");
                }
            }
        }
    }
}
