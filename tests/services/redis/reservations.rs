//! Reservations that replicas share, on every kind of Redis.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use handbill::domain::slug::{Slug, SlugSuffix};
use handbill::domain::title::Title;
use handbill::ports::random::{Random, index_below};
use handbill::ports::slug_reservations::{Reservation, SlugReservations, TIME_TO_LIVE};
use redis::AsyncCommands;

use super::servers::{ALL, OwnServer, PATIENT, Replica, connect, free_port, to, usual};

fn slug() -> Slug {
    let title = Title::parse("A test page").unwrap();
    Slug::derive(&title, SlugSuffix::random(|below| index_below(&Random::System, below)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_racing_reservations_over_4_replicas_one_is_held() {
    for servers in ALL {
        let replicas: Vec<Arc<Replica>> =
            (0..4).map(|_| Arc::new(Replica::start(&servers.settings(), PATIENT))).collect();
        let slug = slug();
        let racing = (0..32).map(|attempt| {
            let (replica, slug) = (replicas[attempt % 4].clone(), slug.clone());
            tokio::spawn(async move { replica.reservations.reserve(&slug).await })
        });
        let answers = join_all(racing).await;
        let held = answers.iter().filter(|answer| *answer.as_ref().unwrap() == Reservation::Held).count();
        assert_eq!(held, 1, "{servers:?}");
    }
}

#[tokio::test]
async fn only_its_holder_gives_a_slug_back() {
    for servers in ALL {
        let (holder, other) =
            (Replica::start(&servers.settings(), PATIENT), Replica::start(&servers.settings(), PATIENT));
        let slug = slug();
        assert_eq!(holder.reservations.reserve(&slug).await, Reservation::Held, "{servers:?}");
        other.reservations.release(&slug).await;
        assert_eq!(other.reservations.reserve(&slug).await, Reservation::Taken, "{servers:?}");
        holder.reservations.release(&slug).await;
        assert_eq!(other.reservations.reserve(&slug).await, Reservation::Held, "{servers:?}");
    }
}

#[tokio::test]
async fn a_reservation_that_nobody_releases_ends_by_itself() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), PATIENT);
    let slug = slug();
    replica.reservations.reserve(&slug).await;
    let mut connection = connect(&server.address()).await;
    let keys: Vec<String> = connection.keys("*").await.unwrap();
    assert_eq!(keys, [format!("handbill:reservation:{{{slug}}}")]);
    let left: u128 = connection.pttl(&keys[0]).await.unwrap();
    assert!((1..=TIME_TO_LIVE.as_millis()).contains(&left), "{left}");
}

#[tokio::test]
async fn without_redis_every_slug_is_held() {
    let replica = Replica::start(&to(&format!("redis://127.0.0.1:{}", free_port())), usual());
    let slug = slug();
    for _ in 0..10 {
        assert_eq!(replica.reservations.reserve(&slug).await, Reservation::Held);
        replica.reservations.release(&slug).await;
    }
}

#[tokio::test]
async fn a_redis_that_does_not_answer_holds_no_create_up() {
    let server = OwnServer::start();
    let replica = Replica::start(&to(&server.address()), usual());
    replica.reservations.reserve(&slug()).await;
    server.freeze();
    let started = Instant::now();
    assert_eq!(replica.reservations.reserve(&slug()).await, Reservation::Held);
    // Many times longer than the limits allow. A frozen server would never answer.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
