//! Browsers that run for several tests, one after the other: each start of Firefox takes three CPU-seconds, and one of Chromium
//! almost one. Each visit is in a context of its own, which knows nothing of the others.

use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::scripts;
use crate::clients::tools::Client;

/// The browsers that no test uses now.
static IDLE: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// A browser that runs until this is dropped or this process ends.
pub(super) struct Running {
    name: &'static str,
    pub(super) address: String,
    /// Its standard input ends with this, and the browser with that.
    _starter: Child,
}

impl Running {
    /// A browser of this name for one test alone.
    pub(super) fn take(name: &'static str) -> Self {
        let mut idle = idle();
        let found = idle.iter().position(|running| running.name == name).map(|at| idle.swap_remove(at));
        drop(idle);
        found.unwrap_or_else(|| {
            let (address, starter) = Client::node_in(&scripts(), "start.mjs").arg(name).starts();
            Self { name, address, _starter: starter }
        })
    }

    /// Leaves it to the next test, after a visit that has succeeded. A failed one may have left anything behind.
    pub(super) fn give_back(self) {
        idle().push(self);
    }
}

fn idle() -> MutexGuard<'static, Vec<Running>> {
    // Nothing panics while the lock is held, so its data is complete.
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
