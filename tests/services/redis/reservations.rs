//! Reservations of slugs (contract, decision 23), on every kind of Redis, and without one.

use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::{Attempt, LimitKind, RateLimiter};
use handbill_pages::values::quota::Quota;
use handbill_pages::values::slug::{Reservation, Reserved, Slug, SlugSuffix};
use handbill_pages::values::title::Title;
use redis::AsyncCommands;

use super::faults::SHORT;
use super::servers::{ALL, OwnServer, PATIENT, Replica, Shared, TEN, client, connect, to};
use crate::port::Port;

/// A slug that nothing else has, reserved by `owner`.
pub(crate) fn reservation(owner: &str) -> Reservation {
    let suffix = SlugSuffix::random(|bound| Random::System.indices().below(bound));
    Reservation { slug: Slug::derive(&Title::parse("Reserved").unwrap(), suffix), owner: owner.to_owned() }
}

fn attempt(reservation: &Reservation) -> Attempt {
    Attempt { slug: Some(reservation.clone()), ..Attempt::new(LimitKind::Create, TEN, client()) }
}

fn key(reservation: &Reservation) -> String {
    format!("handbill:slug:{}", reservation.slug)
}

/// The fate of the reservation of a create, made in one call or in two.
async fn reserve(servers: Shared, replica: &Replica, reservation: &Reservation) -> Reserved {
    let decision = replica.limiter.check(attempt(reservation)).await;
    assert!(decision.admitted);
    assert_eq!(decision.slug == Reserved::NotAsked, servers == Shared::Cluster, "{servers:?}");
    if decision.slug == Reserved::NotAsked { replica.limiter.reserve(reservation).await } else { decision.slug }
}

#[tokio::test]
async fn a_slug_is_its_owners_at_every_replica_and_another_is_told_so() {
    for servers in ALL {
        let [one, other] = [(); 2].map(|()| Replica::start(&servers.settings(), PATIENT));
        let own = reservation("0123456789abcdef");
        assert_eq!(reserve(servers, &one, &own).await, Reserved::Unopposed, "{servers:?}: nobody had it");
        assert_eq!(reserve(servers, &other, &own).await, Reserved::Unopposed, "{servers:?}: a repeat");
        let foreign = Reservation { owner: "fedcba9876543210".to_owned(), ..own.clone() };
        assert_eq!(reserve(servers, &other, &foreign).await, Reserved::ByAnother, "{servers:?}");
        assert_eq!(other.limiter.reserve(&foreign).await, Reserved::ByAnother, "{servers:?}: in a call of its own");
        assert_eq!(reserve(servers, &one, &own).await, Reserved::Unopposed, "{servers:?}: it is still its owner's");
        assert!(!one.decided_alone() && !other.decided_alone());
    }
}

#[tokio::test]
async fn a_reservation_names_its_owner_and_ends_by_itself() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let mut connection = connect(&server.address()).await;
    for by_itself in [false, true] {
        let own = reservation("0123456789abcdef");
        if by_itself {
            replica.limiter.reserve(&own).await;
        } else {
            replica.limiter.check(attempt(&own)).await;
        }
        assert_eq!(connection.get::<_, String>(key(&own)).await.unwrap(), own.owner);
        let left: u64 = connection.pttl(key(&own)).await.unwrap();
        assert!((5_001..=10_000).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn a_refused_attempt_reserves_nothing() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let one = Quota { limit: 1, ..TEN };
    let (client, [first, second]) = (client(), ["a", "b"].map(reservation));
    for (reservation, admitted) in [(&first, true), (&second, false)] {
        let attempt = Attempt::new(LimitKind::Create, one, client);
        let decision = replica.limiter.check(Attempt { slug: Some(reservation.clone()), ..attempt }).await;
        assert_eq!(decision.admitted, admitted);
        assert_eq!(connect(&server.address()).await.exists::<_, bool>(key(reservation)).await.unwrap(), admitted);
    }
}

#[tokio::test]
async fn without_redis_every_slug_is_unopposed() {
    let nobody = Port::hold();
    let replica = Replica::start(&to(&format!("redis://{}", nobody.address)), SHORT);
    let own = reservation("a");
    let decision = replica.limiter.check(attempt(&own)).await;
    assert_eq!((decision.admitted, decision.slug), (true, Reserved::Unopposed), "and nobody asks again");
    assert_eq!(replica.limiter.reserve(&own).await, Reserved::Unopposed);
}

#[tokio::test]
async fn a_reservation_that_redis_refuses_changes_no_decision() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let mut connection = connect(&server.address()).await;
    let () = redis::cmd("ACL").arg(&["SETUSER", "default", "-set"]).query_async(&mut connection).await.unwrap();
    for _ in 0..5 {
        let own = reservation("a");
        let decision = replica.limiter.check(attempt(&own)).await;
        assert_eq!((decision.admitted, decision.slug), (true, Reserved::Unopposed));
        assert_eq!(replica.limiter.reserve(&own).await, Reserved::Unopposed);
    }
    assert!(!replica.decided_alone());
}
