//! The work of commands on the store itself, with a line for the operator as its error.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use sha2::{Digest, Sha256};

use crate::backends::rendering::RenderThreads;
use crate::config::{Budgets, ClusterSettings, EmbeddedSettings, MigrateSettings, Moved, MovingSettings, SweepOptions};
use crate::operators::archive::export::Selection;
use crate::operators::archive::file::Skip;
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
use handbill_store_redb::{self, LEDGER_FILE, OpenError, RedbStore, Restoring};

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

    /// Writes the records of a cluster or of its part `share`, or of an embedded store that no process uses.
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
            Moved::Files(embedded) => {
                let store = match RedbStore::open_existing(&embedded.data_dir) {
                    Err(error) if error.is_read_only() => Arc::new(RedbStore::open_unchanged(&embedded.data_dir)?),
                    opened => Arc::new(opened?),
                };
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
        let expected = verify_all(files, None, progress)?;
        match settings.place.place() {
            Moved::Files(embedded) => import_into(&embedded.data_dir, files, None, expected, progress).await,
            Moved::Cluster(cluster) => {
                store_all(&importer(Arc::new(CqlStore::reach(&cluster).await?)), files, None, expected, progress).await
            }
        }
    }

    /// Makes a new embedded store from the backup `from` and the deletions in `ledgers`. A ledger that is in the data
    /// directory already counts too. `skip` gets each damaged line of the ledgers once.
    pub(super) async fn restore(
        &self,
        settings: &EmbeddedSettings,
        from: &Path,
        ledgers: &[PathBuf],
        skip: Option<&Skip>,
        progress: Progress<'_>,
    ) -> Result<Counts, MoveError> {
        let restoring = Restoring::begin(&settings.data_dir)?;
        let beside = settings.data_dir.join(LEDGER_FILE);
        // Deletions come first: so no deleted page is in the store at any moment, even if the restore is interrupted.
        let mut files: Vec<_> = ledgers.to_vec();
        let is_begun = beside.metadata().is_ok_and(|ledger| ledger.len() > 0);
        files.extend(is_begun.then_some(beside));
        files.push(from.to_owned());
        let expected = verify_all(&files, skip, progress)?;
        let skip_again: Option<Skip> = skip.map(|_| Arc::new(|_: &str| {}) as _);
        let counts = import_into(&restoring.directory(), &files, skip_again.as_ref(), expected, progress).await?;
        restoring.finish()?;
        Ok(counts)
    }
}

/// Names a share of a keyspace: one that is made later, even under its name, has another secret.
async fn name_of(store: &CqlStore, share: Share) -> Result<String, MoveError> {
    let keyspace = Sha256::digest(store.slug_secret().await?.as_bytes());
    Ok(format!("{share:?} {}", hex::encode(&keyspace[..16])))
}

impl From<OpenError> for MoveError {
    fn from(error: OpenError) -> Self {
        if error.is_in_use() { Self::InUse(error.to_string()) } else { Self::Open(error.to_string()) }
    }
}

impl From<handbill_store_cql::ReachError> for MoveError {
    fn from(error: handbill_store_cql::ReachError) -> Self {
        Self::Open(error.to_string())
    }
}

async fn import_into(
    data_dir: &Path,
    files: &[PathBuf],
    skip: Option<&Skip>,
    expected: u64,
    progress: Progress<'_>,
) -> Result<Counts, MoveError> {
    let store = Arc::new(RedbStore::open(data_dir)?);
    let counts = store_all(&importer(Arc::clone(&store) as _), files, skip, expected, progress).await?;
    store.close().await;
    Ok(counts)
}

fn importer(store: Arc<dyn PageImport>) -> Importer {
    let renderer = RenderThreads::new(Budgets::default().texts);
    Importer { store, renderer: Arc::new(renderer), clock: Arc::new(SystemClock::new()) }
}
