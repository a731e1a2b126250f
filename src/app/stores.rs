//! The operators' commands over the stores that there are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::Router;

use super::backends::{Moved, failed_over, migrated, moved, operated, swept};
use super::deps::Deps;
use crate::config::{
    ClusterSettings, EmbeddedSettings, FailoverOptions, MigrateSettings, MovingSettings, SweepOptions,
};
use crate::operators::api::{self, OperatorsApi};
use crate::operators::archive::export::Selection;
use crate::operators::archive::import::{Counts, Importer};
use crate::operators::archive::moving::{Destination, MoveError, Progress, store_all, verify_all, write};
use crate::operators::commands::{CheckedStore, CommandError, Stores};
use crate::telemetry::logs::{self, LogQueue};
use handbill_core::domain::archive::Summary;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_core::ports::page_import::PageImport;
use handbill_core::ports::page_scan::PageScan;
use handbill_core::ports::random::Random;
use handbill_core::service::{Operators, PublishingPolicy};
use handbill_store_cql::{self, CqlLedger, CqlStore};
use handbill_store_redb::{self, LEDGER_FILE, OpenError, RedbStore, Restoring};

/// The stores that settings choose. Work on a cluster is logged to the queue.
pub struct ChosenStores<'a>(pub &'a LogQueue);

impl Stores for ChosenStores<'_> {
    async fn routes(&self, settings: &ClusterSettings) -> Result<Option<Router>, String> {
        let Some(cluster) = operated(settings) else { return Ok(None) };
        let log = logs::install(&settings.logs, self.0, None);
        let store = Arc::new(CqlStore::reach(&cluster).await.map_err(|error| error.to_string())?);
        let Deps { clock, random, metrics, .. } = Deps::system();
        let operators =
            Operators::new(Arc::clone(&store) as _, Arc::clone(&store) as _, Arc::clone(&store) as _, clock, random);
        let records = Arc::clone(&store) as _;
        let policy = PublishingPolicy::default();
        Ok(Some(api::routes(OperatorsApi { operators, records, switch: store, policy, log, metrics })))
    }

    async fn migrate(&self, settings: &MigrateSettings) -> Result<String, String> {
        logs::install(&settings.cluster.logs, self.0, None);
        let Some(cluster) = migrated(settings) else {
            return Ok("The embedded store needs no migration.".to_owned());
        };
        let report = handbill_store_cql::migrate(&cluster, &Random::System).await;
        report.map(|report| report.to_string()).map_err(|error| error.to_string())
    }

    async fn sweep(&self, settings: &ClusterSettings, options: SweepOptions) -> Result<String, CommandError> {
        logs::install(&settings.logs, self.0, None);
        let cluster = swept(settings)?;
        let SweepOptions { dry_run, min_age, rows_per_second } = options;
        let plan = handbill_store_cql::SweepPlan { dry_run, min_age, rows_per_second, now: SystemClock::new().now() };
        let logged = AtomicU8::new(0);
        // Each tenth that is done is logged.
        let progress = |percent: u8, found: &handbill_store_cql::SweepReport| {
            if percent / 10 > logged.swap(percent / 10, Ordering::Relaxed) {
                let handbill_store_cql::SweepReport { read, unnamed, headless, .. } = found;
                tracing::info!(percent, read, unnamed, headless, "sweeping");
            }
        };
        let swept = handbill_store_cql::sweep(&cluster, plan, progress).await;
        swept.map(|report| report.to_string()).map_err(|error| CommandError {
            exit_code: if matches!(error, handbill_store_cql::SweepError::Database(_)) { 1 } else { 2 },
            reason: error.to_string(),
        })
    }

    async fn failover(
        &self,
        settings: &ClusterSettings,
        options: &FailoverOptions,
        say: fn(&str),
    ) -> Result<String, String> {
        logs::install(&settings.logs, self.0, None);
        let cluster = failed_over(settings)?;
        let FailoverOptions { to, force, skip_copy, .. } = options;
        let plan = handbill_store_cql::FailoverPlan { to: to.clone(), is_forced: *force, copies_pages: !skip_copy };
        handbill_store_cql::failover(&cluster, &plan, say).await.map_err(|error| error.to_string())
    }

    async fn export(
        &self,
        settings: &MovingSettings,
        to: &Destination,
        selection: Selection,
        progress: Progress<'_>,
    ) -> Result<Summary, MoveError> {
        let now = SystemClock::new().now();
        match moved(settings) {
            Moved::Files(embedded) => {
                let store = Arc::new(RedbStore::open_existing(&embedded.data_dir)?);
                let written = write(Arc::clone(&store) as _, to, selection, now, progress).await;
                store.close().await;
                written
            }
            Moved::Cluster(cluster) => {
                let store = Arc::new(CqlStore::reach(&cluster).await?);
                let records: Arc<dyn PageScan> = match selection {
                    Selection::All => store,
                    Selection::Deletions => Arc::new(CqlLedger::of(store)),
                };
                write(records, to, selection, now, progress).await
            }
        }
    }

    fn check_backup(&self, settings: &MovingSettings) -> Result<(), &'static str> {
        match moved(settings) {
            Moved::Files(_) => Ok(()),
            Moved::Cluster(_) => Err("backup works on the embedded store: use export, or the snapshots of the cluster"),
        }
    }

    async fn import(
        &self,
        settings: &MovingSettings,
        files: &[PathBuf],
        progress: Progress<'_>,
    ) -> Result<Counts, MoveError> {
        let expected = verify_all(files, progress)?;
        match moved(settings) {
            Moved::Files(embedded) => import_into(&embedded.data_dir, files, expected, progress).await,
            Moved::Cluster(cluster) => {
                store_all(&importer(Arc::new(CqlStore::reach(&cluster).await?)), files, expected, progress).await
            }
        }
    }

    async fn restore(
        &self,
        settings: &EmbeddedSettings,
        from: &Path,
        ledgers: &[PathBuf],
        progress: Progress<'_>,
    ) -> Result<Counts, MoveError> {
        let restoring = Restoring::begin(&settings.data_dir)?;
        let beside = settings.data_dir.join(LEDGER_FILE);
        // Deletions come first: so no deleted page is in the store at any moment, even if the restore is interrupted.
        let mut files: Vec<_> = ledgers.to_vec();
        let is_begun = beside.metadata().is_ok_and(|ledger| ledger.len() > 0);
        files.extend(is_begun.then_some(beside));
        files.push(from.to_owned());
        let expected = verify_all(&files, progress)?;
        let counts = import_into(&restoring.directory(), &files, expected, progress).await?;
        restoring.finish()?;
        Ok(counts)
    }

    fn check(&self, settings: &EmbeddedSettings, progress: Progress<'_>) -> Result<CheckedStore, String> {
        let checked = handbill_store_redb::check(&settings.data_dir, progress).map_err(|error| error.to_string())?;
        let handbill_store_redb::Checked { pages, tombstones, ledger, faults, fault_count } = checked;
        Ok(CheckedStore { pages, tombstones, ledger, faults, fault_count })
    }

    fn compact(&self, settings: &EmbeddedSettings, progress: Progress<'_>) -> Result<(u64, u64), String> {
        let compacted =
            handbill_store_redb::compact(&settings.data_dir, progress).map_err(|error| error.to_string())?;
        Ok((compacted.before, compacted.after))
    }
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
    expected: u64,
    progress: Progress<'_>,
) -> Result<Counts, MoveError> {
    let store = Arc::new(RedbStore::open(data_dir)?);
    let counts = store_all(&importer(Arc::clone(&store) as _), files, expected, progress).await?;
    store.close().await;
    Ok(counts)
}

fn importer(store: Arc<dyn PageImport>) -> Importer {
    let Deps { renderer, clock, .. } = Deps::system();
    Importer { store, renderer, clock }
}
