//! Lookups that must not wait for a disk, so that they can run on a thread of the runtime.
//!
//! `redb` has no such lookup, and after any error of its storage it refuses the file until it is reopened. So a storage
//! that would wait within such a lookup unwinds the stack, through `redb`, to [`without_waiting`]. While `redb` 4.6 reads
//! pages for a lookup, it holds one lock of its own, the shared side of `io_gate`, which unwinding releases and cannot
//! poison. The contract tests end a lookup at each of its reads, use the store and open its file again; run them before
//! another version of `redb` is taken.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// After this many lookups in a row that would have waited, most are not tried: unwinding them costs more than the few
/// that find their page save. A request may try twice.
const PATIENCE: u32 = 8;

/// Then one lookup in this many is tried, which notices when pages are in memory again.
const TRIED_IN: u32 = 16;

thread_local! {
    /// Whether this thread runs a lookup that must not wait.
    static MUST_NOT_WAIT: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WouldWait;

/// Whether a read on this thread may wait for a disk. If not, and if it would wait, call [`would_wait`].
pub fn may_wait() -> bool {
    !MUST_NOT_WAIT.get()
}

/// Ends the lookup that this thread runs, by unwinding. It counts as neither an error nor a panic. Hold no lock.
///
/// # Panics
///
/// If this thread may wait.
pub fn would_wait() -> ! {
    assert!(!may_wait(), "this thread may wait");
    // This does not call the panic hook.
    panic::resume_unwind(Box::new(WouldWait))
}

/// Runs `lookup`, and ends it where a storage would wait. A panic of `lookup` goes on.
pub(super) fn without_waiting<T>(lookup: impl FnOnce() -> T) -> Result<T, WouldWait> {
    let outer = MUST_NOT_WAIT.replace(true);
    let answer = panic::catch_unwind(AssertUnwindSafe(lookup));
    MUST_NOT_WAIT.set(outer);
    answer.map_err(|payload| match payload.downcast::<WouldWait>() {
        Ok(would_wait) => *would_wait,
        Err(panicked) => panic::resume_unwind(panicked),
    })
}

/// Whether the file's size is being changed. `redb` holds locks that every lookup takes while it changes the size, and
/// after a growth until the file is synced. So until then a lookup that must not wait is not begun.
///
/// A lookup that took the last of these locks just before the change waits for its end. Only the microseconds
/// in which the writer finds out that it needs room allow this.
#[derive(Clone, Debug, Default)]
pub(super) struct Resizing(Arc<AtomicBool>);

impl Resizing {
    pub(super) fn is_under_way(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        // A sync is far more frequent than a change of the size.
        if self.is_under_way() {
            self.0.store(false, Ordering::Relaxed);
        }
    }
}

/// Whether it is worthwhile to try lookups that must not wait.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// The tries without an answer since the last one with an answer.
    in_vain: AtomicU32,
    asked: AtomicU32,
}

impl Tries {
    pub(super) fn are_worthwhile(&self) -> bool {
        self.in_vain.load(Ordering::Relaxed) < PATIENCE
            || self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIED_IN)
    }

    pub(super) fn ended(&self, is_answered: bool) {
        if !is_answered {
            self.in_vain.fetch_add(1, Ordering::Relaxed);
        } else if self.in_vain.load(Ordering::Relaxed) > 0 {
            self.in_vain.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_that_would_wait_ends_there_and_the_thread_may_wait_again() {
        assert!(may_wait());
        assert_eq!(without_waiting(may_wait), Ok(false));
        let mut went_on = false;
        let ended = without_waiting(|| {
            if !may_wait() {
                would_wait();
            }
            went_on = true;
        });
        assert_eq!((ended, went_on), (Err(WouldWait), false));
        assert!(may_wait());
    }

    #[test]
    fn after_many_tries_in_vain_few_are_made_until_one_is_answered() {
        let tries = Tries::default();
        for _ in 0..PATIENCE {
            assert!(tries.are_worthwhile());
            tries.ended(false);
        }
        let made = (0..4 * TRIED_IN).filter(|_| tries.are_worthwhile()).count();
        assert_eq!(made, 4);
        tries.ended(true);
        assert!((0..4 * TRIED_IN).all(|_| tries.are_worthwhile()));
    }
}
