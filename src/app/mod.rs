//! The composition root: settings → backends → service → routers.

mod backends;
pub mod drain;
mod error;
mod public;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{self, ExitCode};
use std::{fs, net::SocketAddr, num::NonZero, path::PathBuf, sync::Arc, thread::available_parallelism, time::Duration};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::task::TaskTracker;
use tracing_appender::non_blocking::WorkerGuard;

pub use self::backends::Deps;
use self::backends::{OpenedStore, STORE};
use self::drain::{DrainLimits, StopSignals};
pub use self::error::StartError;
use self::public::public_over;
pub use self::public::{PublicSettings, public};
use crate::admin;
use crate::admin::blocklist::{self, BlocklistFile};
use crate::admin::probes::{self, Probes, Readiness};
use crate::admin::{api::AdminApi, pause, socket};
use crate::http::listener::{ConnectionLimits, Phase, listen, serve as serve_connections};
use crate::settings::{HttpSettings, ServeSettings, Settings};
use crate::telemetry::export::{self, Exports};
use crate::telemetry::logs::{self, AuditLog};
use crate::telemetry::metrics::{COMMIT, Metrics};
use handbill_pages::ports::{operated_store::OperatedStore, random::Random};
use handbill_pages::service::{Importer, Moderation, PublishingPolicy, SharedStore};
use handbill_pages::values::{link_hosts::parse_host, origin::Origin};

/// Dropping it writes the last lines of the log.
type LastLines = Arc<Mutex<Option<WorkerGuard>>>;

/// Eight threads answer some 500 000 reads a second, and more take memory: with 64, a process that needs 212 MiB was
/// killed at 256.
const MAX_THREADS: usize = 8;

/// Exit code when the drain ended before all requests were answered.
const CUT_SHORT: u8 = 1;

/// Connects to nothing and leaves the store alone, so that it can run beside the serving process.
pub fn check(settings: &Settings) -> Result<(), StartError> {
    if let Some(path) = &settings.moderation.blocklist_file {
        let read = blocklist::read(path, &own_hosts(settings));
        read.map_err(|reason| StartError::Blocklist { path: path.clone(), reason })?;
    }
    check_start(settings)
}

/// The service's own hosts, which a blocklist must not name.
fn own_hosts(settings: &Settings) -> Vec<String> {
    let HttpSettings { address, mcp_base_url, .. } = &settings.http;
    let site = address.origin(address.listen);
    [&site].into_iter().chain(mcp_base_url).filter_map(|origin| parse_host(origin.host_text())).collect()
}

/// Leaves out the files without which the service can start.
fn check_start(settings: &Settings) -> Result<(), StartError> {
    settings.check()?;
    backends::check_store(settings)?;
    if !settings.redis.redis_url.is_empty() {
        handbill_rate_limit::check(&settings.redis.limiter())?;
    }
    Ok(())
}

pub fn serve(ServeSettings { settings, new_store, .. }: ServeSettings) -> Result<ExitCode, StartError> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    // First, so that no signal is lost. SIGHUP would end the process, so it is ignored: files are read again when they
    // change.
    let (signals, _ignored) = runtime
        .block_on(async { StopSignals::install().and_then(|stop| Ok((stop, signal(SignalKind::hangup())?))) })?;
    let last_lines = LastLines::default();
    let overdue_lines = Arc::clone(&last_lines);
    drain::enforce(drain_limits(&settings.http), move |overdue| {
        tracing::error!("{overdue}");
        drop(overdue_lines.lock().take());
        process::exit(CUT_SHORT.into());
    })?;
    let exit_code = runtime.block_on(serve_async(settings, new_store, signals, &last_lines));
    // Tasks that still run were cut off, and may wait for a disk.
    runtime.shutdown_background();
    // The thread that enforces the end of a drain has the guard too.
    drop(last_lines.lock().take());
    exit_code
}

fn drain_limits(settings: &HttpSettings) -> DrainLimits {
    DrainLimits { delay: settings.drain_delay, timeout: settings.drain_timeout }
}

async fn serve_async(
    settings: Settings,
    new_store: bool,
    mut signals: StopSignals,
    last_lines: &LastLines,
) -> Result<ExitCode, StartError> {
    settings.check()?;
    let (metrics, exports) = start_telemetry(&settings, last_lines)?;
    let deps = Deps { metrics, cache_bytes: settings.cache.bytes(), ..Deps::system() };
    check_start(&settings)?;
    socket::refuse_if_answered(&settings.admin_socket())?;
    let policy = follow_blocklist(&settings, &deps.metrics);
    let (listener, address) = listen(settings.http.address.listen, "--listen")?;
    let (admin_listener, admin_address) = listen(settings.admin.admin_listen, "--admin-listen")?;
    let base_url = settings.http.address.origin(address);
    let readiness = Arc::new(Readiness::new(deps.metrics.draining.clone()));
    let opened = backends::open_store(&settings, new_store, &deps, &readiness, &policy).await?;
    let OpenedStore { store, location, database, mut fatal_error } = opened;
    let pages = backends::observed(Arc::clone(&store) as _, &deps);
    let limiter = backends::open_limiter(&settings.redis, &deps)?;
    let public = PublicSettings::of(&settings, base_url.clone(), policy.clone());
    let public = public_over(pages.clone(), limiter, public, &deps);
    let limits = ConnectionLimits::of(settings.http.max_connections(), &settings.http.trusted_proxies);
    // Alerts divide by this value.
    deps.metrics.connections_max.set(i64::try_from(limits.connections).unwrap_or(i64::MAX));
    // Probes and the socket answer until the process ends, so that operators can watch it drain.
    let (metrics, public_threads) = (Arc::clone(&deps.metrics), Handle::current());
    let probes = Probes { public: public_threads, metrics, readiness: Arc::clone(&readiness), database };
    probes::start(admin_listener, probes)?;
    let operators = Operators::start(settings.admin_socket(), pages, store, policy, &deps).await?;

    if base_url.as_str().starts_with("https://") && settings.moderation.contacts.abuse_contact.is_none() {
        tracing::warn!("readers cannot report pages: name a mail address or URL with --abuse-contact");
    }
    // Clients are served while the pages of a large store are counted for the log.
    let (connections, cache_bytes) = (limits.connections, deps.cache_bytes);
    tokio::spawn(async move { announce(&base_url, address, admin_address, &location.await, connections, cache_bytes) });
    let (phase, phases) = watch::channel(Phase::Serving);
    let serving = serve_connections(listener, public, limits, Arc::clone(&deps.metrics), phases);
    let ended = tokio::select! {
        ended = drain::run(serving, phase, async || signals.next().await, &readiness, drain_limits(&settings.http)) => ended,
        error = &mut fatal_error => {
            readiness.set_missing(STORE, error.to_string());
            return Err(error);
        }
    };
    // A second signal may end this: acknowledged writes are on disk.
    tokio::select! {
        ((), ()) = async { tokio::join!(operators.stop(ended.left), flush(exports, ended.left)) } => {}
        () = signals.next() => {}
    }
    if let Some(error) = fatal_error.now_or_never() {
        return Err(error);
    }
    Ok(if ended.is_complete { ExitCode::SUCCESS } else { ExitCode::from(CUT_SHORT) })
}

fn start_telemetry(settings: &Settings, last_lines: &LastLines) -> Result<(Arc<Metrics>, Option<Exports>), StartError> {
    let exporting = settings.traces.address().map(|address| export::start(&address, &Random::System));
    let (tracer, exports) = exporting.transpose()?.unzip();
    let (guard, dropped_lines) = logs::install(&settings.logs, tracer);
    *last_lines.lock() = Some(guard);
    Ok((Arc::new(Metrics::with_log(Some(dropped_lines))), exports))
}

fn follow_blocklist(settings: &Settings, metrics: &Arc<Metrics>) -> PublishingPolicy {
    let policy = PublishingPolicy::unknown(metrics.publishing_refusals.clone());
    if let Some(path) = settings.moderation.blocklist_file.clone() {
        BlocklistFile::new(path, own_hosts(settings), policy.clone(), Arc::clone(metrics)).follow();
    }
    policy
}

async fn flush(exports: Option<Exports>, within: Duration) {
    if let Some(exports) = exports {
        exports.flush(within).await;
    }
}

/// What operators do, until the process ends.
struct Operators {
    api: Arc<AdminApi>,
    socket: PathBuf,
    following: JoinHandle<()>,
}

impl Operators {
    /// Answers at `socket`, and follows the switch of creates.
    async fn start(
        socket: PathBuf,
        pages: SharedStore,
        store: Arc<dyn OperatedStore>,
        policy: PublishingPolicy,
        deps: &Deps,
    ) -> Result<Self, StartError> {
        let Deps { clock, random, metrics, renderer, .. } = deps;
        // A cluster is not reached yet; an SQLite store must take creates at once.
        let _ = pause::read(&*store, &policy, metrics).await;
        let following = tokio::spawn(pause::follow(Arc::clone(&store) as _, policy.clone(), Arc::clone(metrics)));
        let api = Arc::new(AdminApi {
            operators: Moderation::new(pages.clone(), Arc::clone(clock), random.clone()),
            importer: Importer::new(pages, Arc::clone(renderer)),
            policy,
            metrics: Arc::clone(metrics),
            store,
            audit: AuditLog::default(),
            acts: TaskTracker::new(),
        });
        tokio::spawn(socket::serve(socket::listen(&socket)?, admin::router(Arc::clone(&api))));
        Ok(Self { api, socket, following })
    }

    /// Completes acts that were begun, for at most `left`, and closes the store.
    async fn stop(self, left: Duration) {
        // It would report a closed store as an error.
        self.following.abort();
        self.api.acts.close();
        let _ = timeout(left, self.api.acts.wait()).await;
        // While the store's lock is held, no other process has its socket there.
        let _ = fs::remove_file(&self.socket);
        self.api.store.close().await;
    }
}

/// Tells operators the addresses: in the log, and on a terminal with a way to publish.
fn announce(
    base_url: &Origin,
    address: SocketAddr,
    admin: SocketAddr,
    pages: &str,
    connections: usize,
    cache_bytes: u64,
) {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), COMMIT);
    tracing::info!(version, commit, listen = %address, admin_listen = %admin, %base_url, pages, connections, cache_bytes, "started");
    let mut stdout = io::stdout().lock();
    if !stdout.is_terminal() {
        return;
    }
    let text = format!(
        "Handbill {version} listens on http://{address} and gives out addresses at {base_url}
Operators: http://{admin}/metrics, /livez, /readyz
Data:      {pages}
Publish:   curl {base_url}/api/pages -H 'Content-Type: application/json' -d '{{\"title\": \"Hello, world\", \"content\": \"A *first* page.\"}}'
",
    );
    // Serving continues even if the terminal is gone.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
