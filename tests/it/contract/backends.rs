//! The backends that run in the process. A new one is a new row.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use handbill_core::ports::rate_limiter::RateLimiter;
use handbill_rate_limit::memory::MemoryRateLimiter;
use handbill_store_sqlite::{SqliteStore, StoreMemory};

use super::rules::{Started, Store};
use crate::in_process::clock::TestClock;

type Starting<T> = Pin<Box<dyn Future<Output = Started<T>> + Send>>;

/// One row: how to start an empty backend.
type Start<T> = fn() -> Starting<T>;

const STORES: [Start<dyn Store>; 1] = [|| {
    Box::pin(async {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path(), false, StoreMemory::default()).unwrap();
        let backend: Arc<dyn Store> = Arc::new(store);
        Started { name: "SQLite", backend, _beside: Box::new(directory) }
    })
}];

/// Every store, each without any page of the test.
pub(crate) async fn stores() -> Vec<Started<dyn Store>> {
    let mut started = Vec::new();
    for start in STORES {
        started.push(start().await);
    }
    started
}

/// Every store, each without any page.
pub(crate) async fn empty_stores() -> Vec<Started<dyn Store>> {
    stores().await
}

/// Every limiter and its name, for rules that hold by any clock.
pub(crate) fn limiters_by_any_clock() -> Vec<(&'static str, Arc<dyn RateLimiter>)> {
    limiters().into_iter().map(|limiter| (limiter.name, limiter.backend)).collect()
}

/// A limiter and its clock.
pub(crate) struct Limiter {
    pub(crate) name: &'static str,
    pub(crate) backend: Arc<dyn RateLimiter>,
    pub(crate) clock: Arc<TestClock>,
}

/// Every limiter that uses the test's clock, each empty.
pub(crate) fn limiters() -> Vec<Limiter> {
    let clock = Arc::new(TestClock::new());
    let few = Arc::new(TestClock::new());
    let limiter = MemoryRateLimiter::new(clock.clone());
    // Every test of the contract has fewer clients, so the limit on its memory must have no effect.
    let bounded = MemoryRateLimiter::within(500_000, few.clone());
    vec![
        Limiter { name: "in process", backend: Arc::new(limiter), clock },
        Limiter { name: "in process, with a small table", backend: Arc::new(bounded), clock: few },
    ]
}
