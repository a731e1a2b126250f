//! Reservations of slugs that a create is about to insert.
//!
//! A reservation is advisory: it only makes a second writer lose early and cheaply. The store alone decides who gets a
//! slug, so a backend that has lost its reservations, or its server, answers [`Reservation::Held`].

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::slug::Slug;

/// Lifetime of a reservation that nobody releases. It is longer than any create, whose deadline is 5 s.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(30);

/// Keeps two creates from trying the same slug at the same time.
#[async_trait]
pub trait SlugReservations: Send + Sync {
    /// Reserves `slug` for [`TIME_TO_LIVE`] unless the slug is already reserved.
    async fn reserve(&self, slug: &Slug) -> Reservation;

    /// Ends the reservation of `slug`. Its holder calls this only when the outcome of the insert is known.
    async fn release(&self, slug: &Slug);
}

/// The answer to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The caller may try to insert the slug.
    Held,
    /// Another create holds the slug.
    Taken,
}
