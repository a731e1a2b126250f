//! What the tests of this program leave in `/metrics`: nothing but documented labels with documented values, and no more
//! series than can be kept.
//!
//! The runner of tests has no place for what is to be done after all of them. So whichever test leaves when no other is
//! there looks at every service that was used since somebody last looked; that is so after the last one at least.

use std::collections::{BTreeSet, HashSet};
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::services::{STARTER, service};
use crate::exposition::undocumented;
use crate::support::app::Limits;
use crate::turns::Sharing;

/// Most lines that the whole suite may leave in the metrics of one replica, as docs/observability.md says. A path or a slug
/// as a label would exceed it even if nothing else told of it.
const MAX_LINES: usize = 5_000;

/// Who is there, and what they have used.
#[derive(Default)]
struct Visits {
    present: usize,
    used: HashSet<Limits>,
}

static VISITS: Mutex<Option<Visits>> = Mutex::new(None);

/// A test that is there.
pub(crate) struct Visit {
    _turn: Sharing,
}

impl Visit {
    /// Of the service with these limits.
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
        // A test that fails has said enough.
        if here.present > 0 || thread::panicking() {
            return;
        }
        let used = std::mem::take(&mut here.used);
        drop(visits);
        // On a thread of its own, for this one may be within a runtime.
        let looked = thread::scope(|scope| scope.spawn(|| STARTER.block_on(look_at(used))).join());
        if let Err(panic) = looked {
            resume_unwind(panic);
        }
    }
}

fn visits() -> MutexGuard<'static, Option<Visits>> {
    // Nothing panics while it is held, so what it guards is whole.
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
