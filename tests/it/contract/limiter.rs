//! The window of the limiter in memory, by a clock that the test moves.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use handbill_core::domain::client::Client;
use handbill_core::domain::quota::Quota;
use handbill_core::ports::rate_limiter::{Attempt, LimitKind};

use super::backends::limiters;

const HOUR: Duration = Duration::from_hours(1);
const TEN: Quota = Quota { limit: 10, window: HOUR };

fn client(number: u32) -> Client {
    Client::from(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)))
}

#[tokio::test]
async fn the_window_slides_attempt_by_attempt() {
    for limiter in limiters() {
        for _ in 0..10 {
            assert!(
                limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await.admitted,
                "{}",
                limiter.name
            );
            limiter.clock.advance(Duration::from_mins(1));
        }
        // There were ten attempts, at minutes 0 to 9. Now it is minute 10.
        limiter.clock.advance(Duration::from_mins(50) - Duration::from_nanos(1));
        assert!(
            !limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await.admitted,
            "{}",
            limiter.name
        );
        limiter.clock.advance(Duration::from_nanos(1));
        assert!(
            limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await.admitted,
            "{}",
            limiter.name
        );
        assert!(
            !limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await.admitted,
            "{}",
            limiter.name
        );
        limiter.clock.advance(Duration::from_mins(1));
        assert!(
            limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await.admitted,
            "{}",
            limiter.name
        );
    }
}

#[tokio::test]
async fn a_refused_attempt_is_not_counted() {
    for limiter in limiters() {
        let quota = Quota { limit: 1, window: HOUR };
        assert!(
            limiter.backend.check(Attempt::new(LimitKind::Create, quota, client(1))).await.admitted,
            "{}",
            limiter.name
        );
        for _ in 0..59 {
            limiter.clock.advance(Duration::from_mins(1));
            assert!(
                !limiter.backend.check(Attempt::new(LimitKind::Create, quota, client(1))).await.admitted,
                "{}",
                limiter.name
            );
        }
        limiter.clock.advance(Duration::from_mins(1));
        assert!(
            limiter.backend.check(Attempt::new(LimitKind::Create, quota, client(1))).await.admitted,
            "{}",
            limiter.name
        );
    }
}

#[tokio::test]
async fn a_client_that_waits_as_long_as_it_is_told_gets_through_and_not_a_second_earlier() {
    for limiter in limiters() {
        for _ in 0..10 {
            limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await;
            limiter.clock.advance(Duration::from_millis(700));
        }
        let refused = limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await;
        assert!(!refused.admitted, "{}", limiter.name);
        assert_eq!(refused.retry_after_seconds(), 3593, "{}", limiter.name);
        limiter.clock.advance(Duration::from_secs(refused.retry_after_seconds() - 1));
        assert!(
            !limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await.admitted,
            "{}",
            limiter.name
        );
        limiter.clock.advance(Duration::from_secs(1));
        assert!(
            limiter.backend.check(Attempt::new(LimitKind::Create, TEN, client(1))).await.admitted,
            "{}",
            limiter.name
        );
    }
}
