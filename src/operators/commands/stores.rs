//! The stores as the operators' commands need them. The composition root has them, since it alone knows which stores
//! there are.

use std::path::{Path, PathBuf};

use axum::Router;

use crate::config::{
    ClusterSettings, EmbeddedSettings, FailoverOptions, MigrateSettings, MovingSettings, SweepOptions,
};
use crate::operators::archive::export::Selection;
use crate::operators::archive::import::Counts;
use crate::operators::archive::moving::{Destination, MoveError, Progress};
use handbill_core::domain::archive::Summary;

/// Why a command failed: one line for the operator, and the exit code.
#[derive(Debug)]
pub struct CommandError {
    /// The line.
    pub reason: String,
    /// 2 for a command that was refused, 1 for one that failed on its way.
    pub exit_code: u8,
}

/// The contents of an embedded store, as a check found them.
pub struct CheckedStore {
    /// Pages that can be read.
    pub pages: u64,
    /// Tombstones that can be read.
    pub tombstones: u64,
    /// Deletions in the ledger.
    pub ledger: u64,
    /// The first faults, each in one line.
    pub faults: Vec<String>,
    /// The number of all faults.
    pub fault_count: u64,
}

/// Work on the store that settings choose. Errors are one line for the operator.
#[expect(async_fn_in_trait, reason = "a command runs on one thread, so its futures need not be `Send`")]
pub trait Stores {
    /// The routes of the operators' API over the store itself, for whoever may change it without a token; `None` if only
    /// the process that serves can use the store.
    async fn routes(&self, settings: &ClusterSettings) -> Result<Option<Router>, String>;

    /// Updates the schema. Returns a summary.
    async fn migrate(&self, settings: &MigrateSettings) -> Result<String, String>;

    /// Deletes texts that no page shows any more. Returns a summary.
    async fn sweep(&self, settings: &ClusterSettings, options: SweepOptions) -> Result<String, CommandError>;

    /// Moves the writing of pages to another datacentre. Each step but the last, which is returned, goes to `say`.
    async fn failover(
        &self,
        settings: &ClusterSettings,
        options: &FailoverOptions,
        say: fn(&str),
    ) -> Result<String, String>;

    /// Writes the records of a cluster, or of an embedded store that no process uses.
    async fn export(
        &self,
        settings: &MovingSettings,
        to: &Destination,
        selection: Selection,
        progress: Progress<'_>,
    ) -> Result<Summary, MoveError>;

    /// Refuses `backup` for a store that it does not work on.
    fn check_backup(&self, settings: &MovingSettings) -> Result<(), &'static str>;

    /// Stores the records of `files`, in order. All files are read before the first record is stored.
    async fn import(
        &self,
        settings: &MovingSettings,
        files: &[PathBuf],
        progress: Progress<'_>,
    ) -> Result<Counts, MoveError>;

    /// Makes a new embedded store from the backup `from` and the deletions in `ledgers`. A ledger that is in the data
    /// directory already counts too.
    async fn restore(
        &self,
        settings: &EmbeddedSettings,
        from: &Path,
        ledgers: &[PathBuf],
        progress: Progress<'_>,
    ) -> Result<Counts, MoveError>;

    /// Reads everything in an embedded store that no process uses.
    fn check(&self, settings: &EmbeddedSettings, progress: Progress<'_>) -> Result<CheckedStore, String>;

    /// Writes an embedded store that no process uses into a new file. Returns the bytes before and after.
    fn compact(&self, settings: &EmbeddedSettings, progress: Progress<'_>) -> Result<(u64, u64), String>;
}

impl<T: Into<String>> From<T> for CommandError {
    /// A command that was refused.
    fn from(reason: T) -> Self {
        Self { reason: reason.into(), exit_code: 2 }
    }
}
