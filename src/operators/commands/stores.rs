//! The work of commands on the store itself, with a line for the operator as its error.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use sha2::{Digest, Sha256};

use crate::backends::rendering::RenderThreads;
use crate::config::{ClusterSettings, MigrateSettings, Moved, MovingSettings, SqliteSettings, SweepOptions};
use crate::operators::archive::export::Selection;
use crate::operators::archive::import::{Counts, Importer};
use crate::operators::archive::moving::{Destination, MoveError, Progress, store_all, verify_all, write};
use crate::telemetry::logs::{self, LogQueue};
use handbill_core::domain::archive::Summary;
use handbill_core::domain::hex;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_core::ports::page_import::PageImport;
use handbill_core::ports::page_store::PageStore;
use handbill_core::ports::random::Random;
use handbill_store_cql::{self, CqlStore, Scanned, Share, ShareScan};
use handbill_store_sqlite::{DATABASE_FILE, OpenError, SqliteStore, StoreMemory};

/// Why a command failed: one line for the operator, and the exit code.
#[derive(Debug)]
pub struct CommandError {
    pub reason: String,
    /// 2 for a command that was refused, 1 for one that failed on its way.
    pub exit_code: u8,
}

impl<T: Into<String>> From<T> for CommandError {
    fn from(reason: T) -> Self {
        Self { reason: reason.into(), exit_code: 2 }
    }
}

/// The stores that settings choose. Work on a cluster is logged to the queue.
pub struct Stores<'a>(pub &'a LogQueue);

impl Stores<'_> {
    /// Updates the schema. Returns a summary.
    pub(super) async fn migrate(&self, settings: &MigrateSettings) -> Result<String, String> {
        logs::install(&settings.cluster.logs, self.0, None);
        let Some(cluster) = settings.cluster().map_err(|wrong| wrong.to_string())? else {
            return Ok("This store needs no migration.".to_owned());
        };
        let report = handbill_store_cql::migrate(&cluster, &Random::System).await;
        report.map(|report| report.to_string()).map_err(|error| error.to_string())
    }

    /// Deletes texts that no page shows any more. Returns a summary.
    pub(super) async fn sweep(
        &self,
        settings: &ClusterSettings,
        options: SweepOptions,
    ) -> Result<String, CommandError> {
        logs::install(&settings.logs, self.0, None);
        let cluster = settings.cluster().map_err(|wrong| wrong.to_string())?;
        let SweepOptions { dry_run, min_age, part: share, rows_per_second } = options;
        let now = SystemClock::new().now();
        let plan = handbill_store_cql::SweepPlan { dry_run, min_age, share, rows_per_second, now };
        let logged = AtomicU8::new(0);
        // Each tenth that is done is logged.
        let progress = |percent: u8, found: &handbill_store_cql::SweepReport| {
            if percent / 10 > logged.swap(percent / 10, Ordering::Relaxed) {
                let handbill_store_cql::SweepReport { read, unnamed, headless, .. } = found;
                tracing::info!(percent, read, unnamed, headless, "sweeping");
            }
        };
        let swept = Box::pin(handbill_store_cql::sweep(&cluster, plan, progress)).await;
        match swept {
            Ok(report) if report.unread == 0 => Ok(report.to_string()),
            Ok(report) => Err(CommandError { reason: report.to_string(), exit_code: 1 }),
            Err(error @ handbill_store_cql::SweepError::Database(_)) => {
                Err(CommandError { reason: error.to_string(), exit_code: 1 })
            }
            Err(error) => Err(error.to_string().into()),
        }
    }

    /// Writes the records of a cluster or of its part `share`, or of an SQLite store that no process uses.
    pub(super) async fn export(
        &self,
        settings: &MovingSettings,
        to: &Destination,
        selection: Selection,
        share: Share,
        progress: Progress<'_>,
    ) -> Result<Summary, MoveError> {
        let now = SystemClock::new().now();
        match settings.place.place_of(share).map_err(|wrong| MoveError::Open(wrong.to_string()))? {
            Moved::Files(SqliteSettings { data_dir }) => {
                if !data_dir.join(DATABASE_FILE).exists() {
                    return Err(MoveError::Open(format!("{} has no store: check --data-dir", data_dir.display())));
                }
                let store = Arc::new(SqliteStore::open(data_dir, false, StoreMemory::default())?);
                let written = write(Arc::clone(&store) as _, to, selection, now, progress).await;
                store.close().await;
                written
            }
            Moved::Cluster(cluster) => {
                let store = Arc::new(CqlStore::reach(&cluster).await?);
                let scanned = match selection {
                    Selection::All => Scanned::Pages,
                    Selection::Deletions => Scanned::Ledger,
                };
                let to = match to {
                    // The ledger is small.
                    Destination::File(path) if selection == Selection::All => {
                        Destination::Resumable(path.clone(), name_of(&store, share).await?)
                    }
                    to => to.clone(),
                };
                write(Arc::new(ShareScan::of(store, share, scanned)), &to, selection, now, progress).await
            }
        }
    }

    /// Stores the records of `files`, in order. All files are read before the first record is stored.
    pub(super) async fn import(
        &self,
        settings: &MovingSettings,
        files: &[PathBuf],
        progress: Progress<'_>,
    ) -> Result<Counts, MoveError> {
        let expected = verify_all(files, progress)?;
        match settings.place.place() {
            Moved::Files(SqliteSettings { data_dir }) => {
                let store = Arc::new(SqliteStore::open(data_dir, false, StoreMemory::default())?);
                let counts = store_all(&importer(Arc::clone(&store) as _), files, expected, progress).await?;
                store.close().await;
                Ok(counts)
            }
            Moved::Cluster(cluster) => {
                store_all(&importer(Arc::new(CqlStore::reach(&cluster).await?)), files, expected, progress).await
            }
        }
    }
}

/// Names a share of a keyspace: one that is made later, even under its name, has another secret.
async fn name_of(store: &CqlStore, share: Share) -> Result<String, MoveError> {
    let keyspace = Sha256::digest(store.slug_secret().await?.as_bytes());
    Ok(format!("{share:?} {}", hex::encode(&keyspace[..16])))
}

impl From<OpenError> for MoveError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::InUse(_) => Self::InUse(error.to_string()),
            _ => Self::Open(error.to_string()),
        }
    }
}

impl From<handbill_store_cql::ReachError> for MoveError {
    fn from(error: handbill_store_cql::ReachError) -> Self {
        Self::Open(error.to_string())
    }
}

fn importer(store: Arc<dyn PageImport>) -> Importer {
    let renderer = RenderThreads::default();
    Importer { store, renderer: Arc::new(renderer), clock: Arc::new(SystemClock::new()) }
}
