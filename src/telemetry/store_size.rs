//! Keeps the metrics of the embedded store's files up to date.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::telemetry::labels::{FileLabels, StateLabels};
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::counted::counted;
use handbill_store_redb::{RecordCount, RedbStore, Room, read_ledger_in_background};

/// How often the store is measured: more often than it is scraped, and rarely enough to cost next to nothing.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);

/// Damaged lines of the ledger that the log names. All are counted.
const MAX_LOGGED: u64 = 10;

struct StoreSize {
    store: Arc<RedbStore>,
    data_dir: PathBuf,
    metrics: Arc<Metrics>,
    /// Whether the last attempt failed, so that the log says it once.
    is_failing: bool,
}

impl StoreSize {
    /// Measures the store in `data_dir` for the first time.
    async fn measured(store: Arc<RedbStore>, data_dir: PathBuf, metrics: Arc<Metrics>) -> Self {
        let mut size = Self { store, data_dir, metrics, is_failing: false };
        size.measure().await;
        size
    }

    async fn follow(mut self) {
        let mut looks = interval_at(Instant::now() + MEASURE_INTERVAL, MEASURE_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.measure().await;
        }
    }

    /// A metric that cannot be measured is not shown: an old value would look like a new one.
    async fn measure(&mut self) {
        let data_dir = self.data_dir.clone();
        // Looking at a file system may block for as long as its disk does not answer.
        let room = match spawn_blocking(move || Room::of(&data_dir)).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(reason)) => Err(reason.to_string()),
            Err(ended) => Err(ended.to_string()),
        };
        let count = self.store.count().await.map_err(|error| error.to_string());
        self.show(room.as_ref().ok(), count.as_ref().ok());
        match room.err().or(count.err()) {
            None => self.is_failing = false,
            Some(reason) => {
                if !self.is_failing {
                    tracing::warn!(reason, "the size of the store cannot be measured");
                }
                self.is_failing = true;
            }
        }
    }

    fn show(&self, room: Option<&Room>, count: Option<&RecordCount>) {
        let Metrics { store_files, store_volume, store_pages, .. } = &*self.metrics;
        if let Some(room) = room {
            for (file, bytes) in [("database", room.database), ("ledger", room.ledger), ("reserve", room.reserve)] {
                set(&store_files.get_or_create(&FileLabels { file }), bytes);
            }
            for (state, bytes) in [("free", room.volume_free), ("used", room.volume_used)] {
                set(&store_volume.get_or_create(&StateLabels { state }), bytes);
            }
        } else {
            store_files.clear();
            store_volume.clear();
        }
        if let Some(count) = count {
            for (state, pages) in [("active", count.pages), ("deleted", count.tombstones)] {
                set(&store_pages.get_or_create(&StateLabels { state }), pages);
            }
        } else {
            store_pages.clear();
        }
    }
}

/// Shows what `store` in `data_dir` does and holds, from now on.
pub async fn follow_store(store: &Arc<RedbStore>, data_dir: &Path, metrics: &Arc<Metrics>) -> io::Result<()> {
    metrics.store_available.set(1);
    let commit_writes = metrics.commit_writes.clone();
    store.observe_commits(move |committed| {
        #[expect(clippy::cast_precision_loss, reason = "a batch has far fewer than 2^52 writes")]
        commit_writes.observe(committed.operations as f64);
    });
    let size = StoreSize::measured(Arc::clone(store), data_dir.to_owned(), Arc::clone(metrics)).await;
    tokio::spawn(size.follow());
    look_at_ledger(data_dir.to_owned(), Arc::clone(metrics))
}

/// The number of records in `store`, as text for the operator: whoever expected more sees at once that this is another store.
pub async fn contents(store: &RedbStore) -> String {
    match store.count().await {
        Ok(RecordCount { pages, tombstones }) => {
            format!("{}, {}", counted(pages, "page"), counted(tombstones, "deletion"))
        }
        Err(error) => error.to_string(),
    }
}

/// Looks for lines of the ledger in `data_dir` that are damaged, in the background. Nobody reads the ledger before a restore, and
/// then it must be whole.
fn look_at_ledger(data_dir: PathBuf, metrics: Arc<Metrics>) -> io::Result<()> {
    read_ledger_in_background(
        data_dir,
        |error, number| {
            if number <= MAX_LOGGED {
                tracing::error!(%error, "the ledger of deletions is damaged");
            }
        },
        move |read| match read {
            Ok(damaged) => set(&metrics.ledger_damaged_lines, damaged),
            Err(reason) => tracing::error!(%reason, "the ledger of deletions cannot be read"),
        },
    )
}

fn set(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}
