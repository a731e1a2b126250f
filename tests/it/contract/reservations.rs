//! How reservations in memory end, by a clock that the test moves.

use std::time::Duration;

use handbill::ports::slug_reservations::{Reservation, TIME_TO_LIVE};

use super::backends::reservations;
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
