//! The tables of backends. A new backend is a new row.

use std::any::Any;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use handbill::backends::memory::{MemoryRateLimiter, MemorySlugReservations};
use handbill::backends::redb::RedbStore;
use handbill::ports::page_store::PageStore;
use handbill::ports::rate_limiter::RateLimiter;
use handbill::ports::slug_reservations::SlugReservations;

use crate::clock::TestClock;
use crate::servers;

/// A backend that runs, for as long as this lives.
pub(crate) struct Started<T: ?Sized> {
    /// What failures name.
    pub(crate) name: &'static str,
    /// The backend.
    pub(crate) backend: Arc<T>,
    /// What must outlive it.
    _beside: Box<dyn Any + Send>,
}

type Starting<T> = Pin<Box<dyn Future<Output = Started<T>> + Send>>;

/// One row: how to start an empty backend.
type Start<T> = fn() -> Starting<T>;

const STORES: [Start<dyn PageStore>; 3] = [
    || {
        Box::pin(async {
            let directory = tempfile::tempdir().unwrap();
            let backend: Arc<dyn PageStore> = Arc::new(RedbStore::open(directory.path()).unwrap());
            Started { name: "embedded on disk", backend, _beside: Box::new(directory) }
        })
    },
    || {
        Box::pin(async {
            let backend: Arc<dyn PageStore> = Arc::new(RedbStore::in_memory().unwrap());
            Started { name: "embedded in memory", backend, _beside: Box::new(()) }
        })
    },
    || {
        Box::pin(async {
            let backend: Arc<dyn PageStore> = Arc::new(servers::cql().await);
            Started { name: "CQL", backend, _beside: Box::new(()) }
        })
    },
];

/// Every store, each without any page that the test knows of.
pub(crate) async fn stores() -> Vec<Started<dyn PageStore>> {
    let mut started = Vec::new();
    for start in STORES {
        started.push(start().await);
    }
    started
}

/// Every limiter, whatever clock it goes by, and its name.
///
/// That Redis, whose clock no test holds, slides its windows as the others do is shown in `tests/redis/window.rs`, by
/// moving what it has counted.
pub(crate) fn limiters_by_any_clock() -> Vec<(&'static str, Arc<dyn RateLimiter>)> {
    let in_process = limiters().into_iter().map(|limiter| (limiter.name, limiter.backend));
    let redis: Arc<dyn RateLimiter> = Arc::new(servers::redis().limiter());
    in_process.chain([("Redis", redis)]).collect()
}

/// A limiter and the clock that it goes by.
pub(crate) struct Limiter {
    pub(crate) name: &'static str,
    pub(crate) backend: Arc<dyn RateLimiter>,
    pub(crate) clock: Arc<TestClock>,
}

/// Every limiter that goes by the test's clock, each with nothing counted.
pub(crate) fn limiters() -> Vec<Limiter> {
    let clock = Arc::new(TestClock::new());
    let few = Arc::new(TestClock::new());
    let limiter = MemoryRateLimiter::new(clock.clone());
    // Every test of the contract has fewer clients, so that its cap must not show.
    let bounded = MemoryRateLimiter::with_capacity(few.clone(), NonZeroUsize::new(300).unwrap());
    vec![
        Limiter { name: "in process", backend: Arc::new(limiter), clock },
        Limiter { name: "in process, with a small table", backend: Arc::new(bounded), clock: few },
    ]
}

/// Every kind of reservations, whatever clock it goes by, and its name.
pub(crate) fn reservations_by_any_clock() -> Vec<(&'static str, Arc<dyn SlugReservations>)> {
    let in_process = reservations().into_iter().map(|reservations| (reservations.name, reservations.backend));
    let redis: Arc<dyn SlugReservations> = Arc::new(servers::redis().reservations());
    in_process.chain([("Redis", redis)]).collect()
}

/// Reservations and the clock that they go by.
pub(crate) struct Reserving {
    pub(crate) name: &'static str,
    pub(crate) backend: Arc<dyn SlugReservations>,
    pub(crate) clock: Arc<TestClock>,
}

/// Every kind of reservations that goes by the test's clock, each with none made.
pub(crate) fn reservations() -> Vec<Reserving> {
    let clock = Arc::new(TestClock::new());
    vec![Reserving { name: "in process", backend: Arc::new(MemorySlugReservations::new(clock.clone())), clock }]
}
