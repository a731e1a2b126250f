//! How reservations in memory end, by a clock that the test moves, and their bounds.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use handbill::backends::memory::MemorySlugReservations;
use handbill::ports::slug_reservations::{Reservation, SlugReservations, TIME_TO_LIVE};

use super::backends::reservations;
use crate::in_process::clock::TestClock;
use crate::support::pages::slug;

#[tokio::test]
async fn a_reservation_that_nobody_releases_ends_by_itself() {
    for reservations in reservations() {
        let slug = slug();
        reservations.backend.reserve(&slug).await;
        reservations.clock.advance(TIME_TO_LIVE.saturating_sub(Duration::from_nanos(1)));
        assert_eq!(reservations.backend.reserve(&slug).await, Reservation::Taken, "{}", reservations.name);
        reservations.clock.advance(Duration::from_nanos(1));
        assert_eq!(reservations.backend.reserve(&slug).await, Reservation::Held, "{}", reservations.name);
    }
}

#[tokio::test]
async fn reservations_take_bounded_memory_and_ended_ones_are_dropped() {
    let clock = Arc::new(TestClock::new());
    let reservations = MemorySlugReservations::with_capacity(clock.clone(), NonZeroUsize::new(10).unwrap());
    for _ in 0..1000 {
        assert_eq!(reservations.reserve(&slug()).await, Reservation::Held);
        assert!(reservations.count() <= 10);
    }
    clock.advance(TIME_TO_LIVE);
    reservations.reserve(&slug()).await;
    assert_eq!(reservations.count(), 1);
}
