//! The contract of `SlugReservations`, as far as it holds by any clock.

use futures_util::future::join_all;
use handbill::ports::slug_reservations::Reservation;

use super::super::backends::reservations_by_any_clock;
use crate::support::pages::slug;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_racing_reservations_of_one_slug_one_is_held() {
    for (name, reservations) in reservations_by_any_clock() {
        let slug = slug();
        let racing = (0..32).map(|_| {
            let (reservations, slug) = (reservations.clone(), slug.clone());
            tokio::spawn(async move { reservations.reserve(&slug).await })
        });
        let answers = join_all(racing).await;
        let held = answers.iter().filter(|answer| *answer.as_ref().unwrap() == Reservation::Held).count();
        assert_eq!(held, 1, "{name}");
    }
}

#[tokio::test]
async fn slugs_are_reserved_apart() {
    for (name, reservations) in reservations_by_any_clock() {
        let (one, other) = (slug(), slug());
        assert_eq!(reservations.reserve(&one).await, Reservation::Held, "{name}");
        assert_eq!(reservations.reserve(&other).await, Reservation::Held, "{name}");
        reservations.release(&other).await;
        assert_eq!(reservations.reserve(&one).await, Reservation::Taken, "{name}");
    }
}

#[tokio::test]
async fn a_released_slug_can_be_reserved_again() {
    for (name, reservations) in reservations_by_any_clock() {
        let slug = slug();
        reservations.release(&slug).await;
        reservations.reserve(&slug).await;
        reservations.release(&slug).await;
        assert_eq!(reservations.reserve(&slug).await, Reservation::Held, "{name}");
    }
}
