//! The tests of this program must leave only documented labels with documented values in `/metrics`, and no more series
//! than can be kept.
//!
//! The test runner has no hook that runs after all tests. So a test that ends while no other test runs looks at every
//! service that was used since the last look. At least the last test to end does so.

use std::collections::{BTreeSet, HashSet};
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::services::{STARTER, service};
use crate::exposition::undocumented;
use crate::support::app::Limits;
use crate::turns::Sharing;

/// Most lines that the whole suite may leave in the metrics of one replica, as docs/observability.md says. A path or a
/// slug as a label would exceed it, even if nothing else showed it.
const MAX_LINES: usize = 5_000;

/// The number of tests that run now, and the services that were used since the last look.
#[derive(Default)]
struct Visits {
    present: usize,
    used: HashSet<Limits>,
}

static VISITS: Mutex<Option<Visits>> = Mutex::new(None);

/// A running test.
pub(crate) struct Visit {
    _turn: Sharing,
}

impl Visit {
    /// A visit to the service with these limits.
    pub(crate) fn to(limits: Limits) -> Self {
        let turn = Sharing::wait();
        let mut visits = visits();
        let here = visits.get_or_insert_default();
        here.present += 1;
        here.used.insert(limits);
        Self { _turn: turn }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut visits = visits();
        let here = visits.get_or_insert_default();
        here.present -= 1;
        // A test that has failed needs no second failure.
        if here.present > 0 || thread::panicking() {
            return;
        }
        let used = std::mem::take(&mut here.used);
        drop(visits);
        // This thread may be within a runtime, so another thread looks at the services.
        let looked = thread::scope(|scope| scope.spawn(|| STARTER.block_on(look_at(used))).join());
        if let Err(panic) = looked {
            resume_unwind(panic);
        }
    }
}

fn visits() -> MutexGuard<'static, Option<Visits>> {
    // Nothing panics while the lock is held, so its data is complete.
    VISITS.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn look_at(used: HashSet<Limits>) {
    for limits in used {
        for replica in &service(limits).await.replicas {
            let (_, scrape) = replica.ask("/metrics").await;
            assert_eq!(undocumented(&scrape), BTreeSet::new(), "of {limits:?}, after all tests so far");
            let lines = scrape.lines().count();
            assert!(scrape.ends_with("# EOF\n"), "it is whole: {scrape}");
            assert!(lines < MAX_LINES, "{lines} lines, of {limits:?}, after all tests so far");
        }
    }
}
