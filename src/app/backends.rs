//! Chooses a backend for each trait by the settings. Each choice is an exhaustive `match`, so that a new store does not
//! compile before all are made.

use std::future::{pending, ready};
use std::{io, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{sync::oneshot, task};

use super::error::StartError;
use crate::admin::pause;
use crate::admin::probes::{Readiness, StoreFile};
use crate::settings::{RedisSettings, Settings, SqliteSettings, StoreKind};
use crate::telemetry::metrics::Metrics;
use handbill_pages::ports::clock::{SharedClock, SystemClock};
use handbill_pages::ports::{operated_store::OperatedStore, page_store::PageStore, rate_limiter::RateLimiter};
use handbill_pages::ports::{random::Random, renderer::Renderer};
use handbill_pages::service::{PublishingPolicy, RenderThreads, SharedStore};
use handbill_pages::values::counted::counted;
use handbill_rate_limit::{RedisLimiter, memory::MemoryRateLimiter};
use handbill_store_scylla::{ConnectError, Limits, Progress, ScyllaSettings, ScyllaStore, builder};
use handbill_store_sqlite::{Counts, DatabaseFile, SqliteStore};

/// Some 40 000 clients.
const WINDOWS_BYTES: usize = 8 << 20;

/// The page store's name in `/readyz`.
pub(super) const STORE: &str = "store";

impl StoreFile for DatabaseFile {
    fn moved(&self) -> Option<String> {
        self.is_in_place().err().map(|error| error.to_string())
    }
}

/// What differs between a process and a test.
pub struct Deps {
    pub clock: SharedClock,
    pub random: Random,
    pub metrics: Arc<Metrics>,
    /// Bytes of pages kept in memory.
    pub cache_bytes: u64,
    pub renderer: Arc<dyn Renderer>,
}

impl Deps {
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            metrics: Arc::new(Metrics::default()),
            cache_bytes: 64 << 20,
            renderer: Arc::new(RenderThreads::default()),
        }
    }
}

/// The store that `--store` names.
pub(super) struct OpenedStore {
    pub(super) store: Arc<dyn OperatedStore>,
    /// Where it is and what is in it, for the operator who starts the process.
    pub(super) location: BoxFuture<'static, String>,
    /// The file with the pages, if they are in one.
    pub(super) database: Option<Arc<dyn StoreFile>>,
    /// Ends once the store cannot be used.
    pub(super) fatal_error: BoxFuture<'static, StartError>,
}

pub(super) fn check_store(settings: &Settings) -> Result<(), StartError> {
    match settings.store.store {
        StoreKind::Sqlite => Ok(()),
        StoreKind::Scylla => {
            builder(&settings.scylla.store()).map_err(ConnectError::from)?;
            Ok(())
        }
    }
}

/// A cluster connects in the background. `policy` first learns there whether creates are paused. With `new_store`
/// there must be no SQLite database yet.
pub(super) async fn open_store(
    settings: &Settings,
    new_store: bool,
    deps: &Deps,
    readiness: &Arc<Readiness>,
    policy: &PublishingPolicy,
) -> Result<OpenedStore, StartError> {
    match settings.store.store {
        StoreKind::Sqlite => open_sqlite(&settings.sqlite, new_store, deps).await,
        StoreKind::Scylla => Ok(connect_cluster(settings.scylla.store(), deps, readiness, policy.clone())),
    }
}

pub(super) fn open_limiter(settings: &RedisSettings, deps: &Deps) -> Result<Arc<dyn RateLimiter>, StartError> {
    if settings.redis_url.is_empty() {
        return Ok(in_process(deps));
    }
    let fallback = deps.metrics.rate_limit_fallback.clone();
    let (clock, random) = (Arc::clone(&deps.clock), deps.random.clone());
    Ok(Arc::new(RedisLimiter::open(&settings.limiter(), WINDOWS_BYTES, clock, random, fallback)?))
}

pub(super) fn observed(store: Arc<dyn PageStore>, deps: &Deps) -> SharedStore {
    SharedStore::new(store, deps.metrics.calls.clone(), Arc::clone(&deps.clock))
}

pub(super) fn in_process(deps: &Deps) -> Arc<dyn RateLimiter> {
    Arc::new(MemoryRateLimiter::within(WINDOWS_BYTES, Arc::clone(&deps.clock)))
}

/// Logs the progress, and returns the text for `/readyz` while the cluster is awaited.
fn waits_for(progress: &Progress) -> Option<String> {
    let waiting = match progress {
        Progress::OutOfReach(reason) => format!("out of reach: {reason}"),
        Progress::Schema(state) => format!("{state}: run handbill migrate"),
        Progress::Connected => {
            tracing::info!("connected to the database");
            return None;
        }
    };
    tracing::warn!(waiting, "waiting for the database");
    Some(waiting)
}

/// Shows operators at once if this is another store than they expect.
async fn contents(store: &SqliteStore) -> String {
    match store.counts().await {
        Ok(Counts { pages, hidden, deletions }) => {
            let hidden = if hidden > 0 { format!(" of which {hidden} hidden,") } else { String::new() };
            format!("{},{hidden} {}", counted(pages, "page"), counted(deletions, "deletion"))
        }
        Err(error) => error.to_string(),
    }
}

async fn open_sqlite(settings: &SqliteSettings, new_store: bool, deps: &Deps) -> Result<OpenedStore, StartError> {
    let data_dir = settings.data_dir.clone();
    let opening = task::spawn_blocking(move || SqliteStore::open(&data_dir, new_store));
    let store = Arc::new(opening.await.map_err(io::Error::other)??);
    deps.metrics.calls.store_available.set(1);
    if let Ok(Some(time)) = store.last_backup().await {
        deps.metrics.last_backup.set(time.get() / 1000);
    }
    let place = settings.data_dir.canonicalize().unwrap_or_else(|_| settings.data_dir.clone());
    let (counted, ending, database) = (Arc::clone(&store), Arc::clone(&store), store.file().clone());
    Ok(OpenedStore {
        store,
        location: async move { format!("{} ({})", place.display(), contents(&counted).await) }.boxed(),
        database: Some(Arc::new(database)),
        fatal_error: async move { StartError::StoreEnded(ending.fatal_error().await) }.boxed(),
    })
}

/// Connects in the background.
fn connect_cluster(
    settings: ScyllaSettings,
    deps: &Deps,
    readiness: &Arc<Readiness>,
    policy: PublishingPolicy,
) -> OpenedStore {
    let location = format!("keyspace {} at {}", settings.keyspace, settings.nodes.join(", "));
    readiness.set_missing(STORE, "not reached yet");
    let (fail, failed) = oneshot::channel();
    let store =
        ScyllaStore::new(Limits::of_requests(settings.consistency), deps.random.clone(), Arc::clone(&deps.clock));
    let store = Arc::new(store);
    let (connecting, readiness) = (Arc::clone(&store), Arc::clone(readiness));
    let metrics = Arc::clone(&deps.metrics);
    task::spawn(async move {
        let connected = connecting.connect(&settings, |progress: &Progress| {
            if let Some(waiting) = waits_for(progress) {
                readiness.set_missing(STORE, waiting);
            }
        });
        match connected.await {
            Ok(()) => {
                // A process that starts during a pause must not accept pages before it knows.
                if let Err(error) = pause::read(&*connecting, &policy, &metrics).await {
                    tracing::warn!(%error, "the switch of creates cannot be read yet");
                }
                metrics.calls.store_available.set(1);
                readiness.set_present(STORE);
            }
            // The receiver is gone only when the process ends.
            Err(error) => drop(fail.send(error)),
        }
    });
    let fatal_error = async {
        match failed.await {
            Ok(error) => error.into(),
            // It is connected.
            Err(_) => pending().await,
        }
    };
    OpenedStore { store, location: ready(location).boxed(), database: None, fatal_error: fatal_error.boxed() }
}
