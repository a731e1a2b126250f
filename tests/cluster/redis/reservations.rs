//! Reservations of slugs (contract, decision 23), on every kind of Redis, and without one.

use futures_util::FutureExt;
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::RateLimiter;
use handbill_pages::values::slug::{Reservation, Reserved, Slug, SlugSuffix};
use handbill_pages::values::title::Title;
use handbill_test_support::port::Port;
use redis::AsyncCommands;

use super::faults::SHORT;
use super::servers::{ALL, OwnServer, PATIENT, Replica, client, connect, to};

/// A slug that nothing else has, reserved by `owner`.
pub(crate) fn reservation(owner: &str) -> Reservation {
    let suffix = SlugSuffix::random(|bound| Random::System.indices().below(bound));
    Reservation { slug: Slug::derive(&Title::parse("Reserved").unwrap(), suffix), owner: owner.to_owned() }
}

fn key(reservation: &Reservation) -> String {
    format!("handbill:slug:{}", reservation.slug)
}

#[tokio::test]
async fn a_slug_is_its_owners_at_every_replica_and_another_is_told_so() {
    for servers in ALL {
        let [one, other] = [(); 2].map(|()| Replica::start(&servers.settings(), PATIENT));
        let own = reservation("0123456789abcdef");
        let foreign = Reservation { owner: "fedcba9876543210".to_owned(), ..own.clone() };
        for (replica, asked, told) in [
            (&one, &own, Reserved::Unopposed),
            (&other, &own, Reserved::Unopposed),
            (&other, &foreign, Reserved::ByAnother),
            (&one, &own, Reserved::Unopposed),
        ] {
            assert_eq!(replica.limiter.reserve(asked).await, told, "{servers:?}: {asked:?}");
        }
    }
}

#[tokio::test]
async fn a_reservation_names_its_owner_and_ends_by_itself() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let mut connection = connect(&server.address()).await;
    let own = reservation("0123456789abcdef");
    replica.limiter.reserve(&own).await;
    assert_eq!(connection.get::<_, String>(key(&own)).await.unwrap(), own.owner);
    let left: u64 = connection.pttl(key(&own)).await.unwrap();
    assert!((5_001..=10_000).contains(&left), "{left}");
}

#[tokio::test]
async fn a_slug_is_reserved_though_nobody_waits_for_the_answer() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let own = reservation("0123456789abcdef");
    assert!(replica.limiter.reserve(&own).now_or_never().is_none());
    let mut connection = connect(&server.address()).await;
    // The reservation is made meanwhile, so this loop ends.
    while !connection.exists::<_, bool>(key(&own)).await.unwrap() {}
}

#[tokio::test]
async fn without_redis_every_slug_is_unopposed() {
    let nobody = Port::hold();
    let replica = Replica::start(&to(&format!("redis://{}", nobody.address)), SHORT);
    assert_eq!(replica.limiter.reserve(&reservation("a")).await, Reserved::Unopposed);
}

#[tokio::test]
async fn a_reservation_that_fails_loses_no_redis() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), SHORT);
    replica.check(client()).await;
    let mut connection = connect(&server.address()).await;
    let () = redis::cmd("ACL").arg(&["SETUSER", "default", "-set"]).query_async(&mut connection).await.unwrap();
    for _ in 0..5 {
        assert_eq!(replica.limiter.reserve(&reservation("a")).await, Reserved::Unopposed, "it is refused");
    }
    server.freeze();
    for _ in 0..5 {
        assert_eq!(replica.limiter.reserve(&reservation("a")).await, Reserved::Unopposed, "it is not answered");
    }
    server.thaw();
    assert!(replica.check(client()).await.admitted);
    assert!(!replica.decided_alone());
}
