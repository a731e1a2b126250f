//! Slug reservations in memory, for one process.

use std::collections::hash_map::RandomState;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;

use crate::domain::slug::Slug;
use crate::ports::clock::SharedClock;
use crate::ports::slug_reservations::{Reservation, SlugReservations, TIME_TO_LIVE};

/// Maximum number of reservations: more than the number of creates that can be in flight. Each takes about 200 bytes,
/// so all take 13 MB. Beyond this number the oldest reservation is forgotten. Its holder loses nothing, but a second
/// create of that slug is then refused late, by the store.
const MAX_RESERVATIONS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// The end of each reservation, oldest first. All last equally long, and none is prolonged, so the oldest ends first.
type Ends = LruCache<Slug, Duration, RandomState>;

/// Reservations among the creates of this process.
pub struct MemorySlugReservations {
    clock: SharedClock,
    ends: Mutex<Ends>,
}

impl MemorySlugReservations {
    /// No reservations yet.
    pub fn new(clock: SharedClock) -> Self {
        Self::with_capacity(clock, MAX_RESERVATIONS)
    }

    /// No reservations yet, and never more than `reservations`.
    fn with_capacity(clock: SharedClock, reservations: NonZeroUsize) -> Self {
        // Resized afterwards, because `with_hasher` allocates a full table at once.
        let mut ends = Ends::unbounded_with_hasher(RandomState::new());
        ends.resize(reservations);
        Self { clock, ends: Mutex::new(ends) }
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SlugReservations for MemorySlugReservations {
    async fn reserve(&self, slug: &Slug) -> Reservation {
        let mut ends = self.ends();
        let now = self.clock.monotonic();
        while ends.peek_lru().is_some_and(|(_, &end)| end <= now) {
            ends.pop_lru();
        }
        if ends.contains(slug) {
            return Reservation::Taken;
        }
        ends.put(slug.clone(), now + TIME_TO_LIVE);
        Reservation::Held
    }

    async fn release(&self, slug: &Slug) {
        self.ends().pop(slug);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::test_clock::TestClock;
    use super::*;

    fn slug(number: u32) -> Slug {
        // The digits 0 and 1 are no characters of a suffix.
        Slug::parse(&format!("page-{number:08}").replace('0', "b").replace('1', "c")).unwrap()
    }

    #[tokio::test]
    async fn reservations_take_bounded_memory_and_ended_ones_are_dropped() {
        let clock = Arc::new(TestClock::new());
        let reservations = MemorySlugReservations::with_capacity(clock.clone(), NonZeroUsize::new(10).unwrap());
        for number in 0..1000 {
            assert_eq!(reservations.reserve(&slug(number)).await, Reservation::Held);
            assert!(reservations.ends().len() <= 10);
        }
        clock.advance(TIME_TO_LIVE);
        reservations.reserve(&slug(1000)).await;
        assert_eq!(reservations.ends().len(), 1);
    }
}
