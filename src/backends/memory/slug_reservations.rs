//! Reservations in memory, for one process.

use std::collections::hash_map::RandomState;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;

use crate::domain::slug::Slug;
use crate::ports::clock::SharedClock;
use crate::ports::slug_reservations::{Reservation, SlugReservations, TIME_TO_LIVE};

/// Most reservations kept, each some 200 bytes: 13 MB, and more creates than can be in flight. Beyond, the oldest is
/// forgotten, which costs its holder nothing but a second writer that loses late.
const MAX_RESERVATIONS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// When each reservation ends, oldest first: all live equally long, and none is ever moved.
type Ends = LruCache<Slug, Duration, RandomState>;

/// Reservations among the creates of this process.
pub struct MemorySlugReservations {
    clock: SharedClock,
    ends: Mutex<Ends>,
}

impl MemorySlugReservations {
    /// None yet.
    pub fn new(clock: SharedClock) -> Self {
        Self::with_capacity(clock, MAX_RESERVATIONS)
    }

    /// None yet, and never more than `reservations`.
    pub fn with_capacity(clock: SharedClock, reservations: NonZeroUsize) -> Self {
        // Made without room and then bounded, since `with_hasher` takes the memory of a full table at once.
        let mut ends = Ends::unbounded_with_hasher(RandomState::new());
        ends.resize(reservations);
        Self { clock, ends: Mutex::new(ends) }
    }

    /// How many are kept, ended ones that were not yet dropped included.
    pub fn count(&self) -> usize {
        self.ends().len()
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
