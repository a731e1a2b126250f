//! The database, as the writer and the readers share it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard};
use redb::Database;

use super::error::OpenError;
use super::known_states::KnownStates;
use super::no_wait::Resizing;
use crate::ports::page_store::Cause;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub operations: usize,
    /// The duration of the commit, from the first operation to the last byte on disk.
    pub took: Duration,
}

pub(super) struct Shared {
    state: RwLock<DbState>,
    /// The number of times that the database was replaced.
    epoch: AtomicU64,
    /// Whether the file's size is being changed.
    pub(super) resizing: Resizing,
    /// The current states of pages that were read lately.
    pub(super) known: KnownStates,
    pub(super) observer: OnceLock<Box<dyn Fn(Committed) + Send + Sync>>,
}

pub(super) enum DbState {
    Writable(Database),
    /// The database can be read, but the disk refuses writes for this reason.
    ReadOnly(Database, Arc<OpenError>),
    /// The disk refuses even reads for this reason.
    Broken(Arc<OpenError>),
    Closed,
}

impl Shared {
    pub(super) fn new(database: Database, resizing: Resizing) -> Self {
        Self {
            state: RwLock::new(DbState::Writable(database)),
            epoch: AtomicU64::new(0),
            resizing,
            known: KnownStates::new(),
            observer: OnceLock::new(),
        }
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, DbState> {
        self.state.read()
    }

    /// The same, unless the database is being replaced or its file's size changed.
    pub(super) fn state_now(&self) -> Option<RwLockReadGuard<'_, DbState>> {
        if self.resizing.is_under_way() {
            return None;
        }
        self.state.try_read()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(super) fn replace(&self, open: impl FnOnce() -> DbState) {
        let mut state = self.state.write();
        // The old database holds the file's lock, so it must be dropped before the new one is opened.
        *state = DbState::Closed;
        *state = open();
        // A state from the old database may not be in the new one.
        self.known.forget_all();
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// A cause from `error`, which may be the cause of several errors.
pub(super) fn cause<E>(error: &Arc<E>) -> Cause
where
    E: std::error::Error + Send + Sync + 'static,
{
    Box::new(Arc::clone(error))
}
