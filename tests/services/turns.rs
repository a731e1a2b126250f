//! Turns at the three database nodes, which all tests of this program share.
//!
//! A test that harms the nodes has them to itself. Tests that only use the nodes run side by side.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

struct Turns {
    sharing: usize,
    is_alone: bool,
    /// How many tests have had the nodes alone. Each may have left some of them harmed.
    ended_alone: u64,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { sharing: 0, is_alone: false, ended_alone: 0 });
static TURN_ENDED: Condvar = Condvar::new();

/// The nodes for one test alone, until this is dropped.
pub(crate) struct Alone(());

impl Alone {
    /// Blocks the test until no other test uses the nodes.
    pub(crate) fn wait() -> Self {
        wait_while(|turns| turns.is_alone || turns.sharing > 0).is_alone = true;
        Self(())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let mut turns = turns();
        turns.is_alone = false;
        turns.ended_alone += 1;
        TURN_ENDED.notify_all();
    }
}

/// The nodes as they are, beside other tests that share them, until this is dropped.
pub(crate) struct Sharing(());

impl Sharing {
    /// Blocks the test while another has the nodes alone. A test may share them several times.
    pub(crate) fn wait() -> Self {
        wait_while(|turns| turns.is_alone).sharing += 1;
        Self(())
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        turns().sharing -= 1;
        TURN_ENDED.notify_all();
    }
}

/// How many tests have had the nodes alone so far.
pub(crate) fn ended_alone() -> u64 {
    turns().ended_alone
}

fn turns() -> MutexGuard<'static, Turns> {
    // Nothing panics while the lock is held, so its data is complete.
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_while(busy: impl Fn(&Turns) -> bool) -> MutexGuard<'static, Turns> {
    TURN_ENDED.wait_while(turns(), |turns| busy(turns)).unwrap_or_else(PoisonError::into_inner)
}
