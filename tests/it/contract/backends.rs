//! The backends that run in the process. A new one is a new row.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use handbill_pages::ports::operated_store::OperatedStore;
use handbill_pages::ports::rate_limiter::RateLimiter;
use handbill_rate_limit::memory::MemoryRateLimiter;
use handbill_store_sqlite::SqliteStore;

use super::rules::Started;
use crate::in_process::clock::TestClock;

type Starting<T> = Pin<Box<dyn Future<Output = Started<T>> + Send>>;

/// One row: how to start an empty backend.
type Start<T> = fn() -> Starting<T>;

const STORES: [Start<dyn OperatedStore>; 1] = [|| {
    Box::pin(async {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path(), false).unwrap();
        let backend: Arc<dyn OperatedStore> = Arc::new(store);
        Started { name: "SQLite", backend, _beside: Box::new(directory) }
    })
}];

/// Every store, each without any page of the test.
pub(crate) async fn stores() -> Vec<Started<dyn OperatedStore>> {
    let mut started = Vec::new();
    for start in STORES {
        started.push(start().await);
    }
    started
}

pub(crate) async fn empty_stores() -> Vec<Started<dyn OperatedStore>> {
    stores().await
}

/// Every limiter and its name, each empty.
pub(crate) fn limiters_by_any_clock() -> Vec<(&'static str, Arc<dyn RateLimiter>)> {
    let clock = Arc::new(TestClock::new());
    // Every test of the contract has fewer clients, so the limit on its memory must have no effect.
    let bounded = MemoryRateLimiter::within(500_000, clock.clone());
    let limiter = MemoryRateLimiter::within(8 << 20, clock);
    vec![("in process", Arc::new(limiter)), ("in process, with a small table", Arc::new(bounded))]
}
