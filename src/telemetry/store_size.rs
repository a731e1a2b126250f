//! Keeps the metrics of the SQLite store's files up to date.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use rustix::fs::statvfs;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::telemetry::labels::{FileLabels, StateLabels};
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::counted::counted;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_store_sqlite::{Counts, DATABASE_FILE, JOURNAL_FILE, LOG_FILE, SqliteStore};

/// How often the store is measured. To count a million pages takes a tenth of a second.
const MEASURE_INTERVAL: Duration = Duration::from_mins(1);

/// Bytes of the store's files, and of its volume.
struct Sizes {
    database: u64,
    journal: u64,
    free: u64,
    used: u64,
}

impl Sizes {
    fn of(data_dir: &Path) -> io::Result<Self> {
        let length = |name: &str| match data_dir.join(name).metadata() {
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => Ok(0),
            found => found.map(|found| found.len()),
        };
        let volume = statvfs(data_dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(volume.f_frsize);
        Ok(Self {
            database: length(DATABASE_FILE)? + length(LOG_FILE)?,
            journal: length(JOURNAL_FILE)?,
            free: bytes(volume.f_bavail),
            used: bytes(volume.f_blocks.saturating_sub(volume.f_bavail)),
        })
    }
}

/// Shows what `store` in `data_dir` does and holds, from now on.
pub async fn follow_store(store: &Arc<SqliteStore>, data_dir: &Path, metrics: &Arc<Metrics>) {
    metrics.store_available.set(1);
    let commit_writes = metrics.commit_writes.clone();
    store.observe_commits(move |operations| {
        #[expect(clippy::cast_precision_loss, reason = "a batch has far fewer than 2^52 writes")]
        commit_writes.observe(operations as f64);
    });
    if let Ok(Some(time)) = store.last_backup().await {
        show_backup(metrics, time);
    }
    let (store, data_dir, metrics) = (Arc::clone(store), data_dir.to_owned(), Arc::clone(metrics));
    tokio::spawn(async move {
        let mut looks = interval(MEASURE_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            measure(&store, data_dir.clone(), &metrics).await;
        }
    });
}

/// Shows `time` as that of the last backup.
pub fn show_backup(metrics: &Metrics, time: UnixMillis) {
    metrics.last_backup.set(time.get() / 1000);
}

/// A metric that cannot be measured is not shown: an old value would look like a new one.
async fn measure(store: &SqliteStore, data_dir: PathBuf, metrics: &Metrics) {
    let Metrics { store_files, store_volume, store_pages, .. } = metrics;
    // Looking at a file system may block for as long as its disk does not answer.
    match spawn_blocking(move || Sizes::of(&data_dir)).await.map_err(io::Error::other).flatten() {
        Ok(Sizes { database, journal, free, used }) => {
            set(&store_files.get_or_create(&FileLabels { file: "database" }), database);
            set(&store_files.get_or_create(&FileLabels { file: "journal" }), journal);
            set(&store_volume.get_or_create(&StateLabels { state: "free" }), free);
            set(&store_volume.get_or_create(&StateLabels { state: "used" }), used);
        }
        Err(error) => {
            tracing::warn!(%error, "the files of the store cannot be measured");
            store_files.clear();
            store_volume.clear();
        }
    }
    match store.counts().await {
        Ok(Counts { pages, hidden, deletions }) => {
            for (state, count) in [("active", pages - hidden), ("hidden", hidden), ("deleted", deletions)] {
                set(&store_pages.get_or_create(&StateLabels { state }), count);
            }
        }
        Err(error) => {
            tracing::warn!(error = error.causes(), "the pages of the store cannot be counted");
            store_pages.clear();
        }
    }
}

/// The number of records in `store`, as text for operators: they see at once when it is another store than they expect.
pub async fn contents(store: &SqliteStore) -> String {
    match store.counts().await {
        Ok(Counts { pages, hidden, deletions }) => {
            let hidden = if hidden > 0 { format!(" of which {hidden} hidden,") } else { String::new() };
            format!("{},{hidden} {}", counted(pages, "page"), counted(deletions, "deletion"))
        }
        Err(error) => error.to_string(),
    }
}

fn set(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}
