//! The composition root: settings → backends → service → routers.

mod backends;
mod deps;
mod error;

use std::num::NonZero;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread::available_parallelism;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_appender::non_blocking::WorkerGuard;

use self::backends::{Backends, STORE};
pub use self::deps::Deps;
pub use self::error::StartError;
use crate::admin::api::{self, AdminApi};
use crate::admin::blocklist::{Blocklist, BlocklistFile};
use crate::admin::import::Importer;
use crate::admin::pause;
use crate::admin::probes::{self, Probes};
use crate::admin::socket;
use crate::http::drain::{self, DrainLimits, Phase, Readiness, StopSignals};
use crate::http::listener::{Limits, ListenerMetrics, serve as serve_connections};
use crate::http::request::client_addr::TrustedProxies;
use crate::http::startup::{announce, listen};
use crate::http::{Front, Http, SiteSettings, front};
use crate::mcp::{AllowedHosts, Mcp, Tools};
use crate::settings::{HttpSettings, ServeSettings, Settings};
use crate::telemetry::export;
use crate::telemetry::http::RequestTelemetry;
use crate::telemetry::logs;
use crate::telemetry::metrics::{Metrics, RefusalLabels};
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::random::Random;
use handbill_pages::ports::rate_limiter::Quotas;
use handbill_pages::service::{Operators, PageCache, PageService, PublishingPolicy, ServiceParts};
use handbill_pages::values::link_hosts::parse_host;
use handbill_pages::values::network_limits::SharedNetwork;
use handbill_pages::values::origin::Origin;

/// Dropping it writes the last lines of the log.
type LastLines = Arc<Mutex<Option<WorkerGuard>>>;

/// Eight threads answer some 500 000 reads a second, and more take memory: with 64, a process that needs 212 MiB was
/// killed at 256.
const MAX_THREADS: usize = 8;

/// Bytes of pages over 64 KiB in use: five of the largest, which count twice.
const LARGE_BYTES: usize = 8 << 20;

/// Requests were not answered.
const CUT_SHORT: u8 = 1;

/// The default allows everything.
#[derive(Default)]
pub struct Publishing {
    pub policy: PublishingPolicy,
    pub site: SiteSettings,
}

impl Publishing {
    fn of(settings: &Settings, policy: &PublishingPolicy) -> Self {
        let (http, moderation) = (&settings.http, &settings.moderation);
        let site = SiteSettings {
            abuse_contact: moderation.contacts.abuse_contact.clone(),
            noindex_all: moderation.noindex_all,
            links: http.site_links.clone(),
            mcp_base_url: http.mcp_base_url.clone(),
            edge_max_age: settings.edge.max_age(),
        };
        Self { policy: policy.clone(), site }
    }
}

pub struct PublicSettings {
    pub quotas: Quotas,
    /// Their clients share one larger window.
    pub networks: Vec<SharedNetwork>,
    /// Begins every address that is given out.
    pub base_url: Origin,
    /// Their `X-Forwarded-For` is believed.
    pub proxies: TrustedProxies,
    /// May call the tools.
    pub hosts: AllowedHosts,
    pub publishing: Publishing,
}

/// With a limiter in this process.
pub fn public(store: Arc<dyn PageStore>, settings: PublicSettings, deps: &Deps) -> Front {
    public_over(Backends::in_process(store, deps), settings, deps)
}

fn public_over(backends: Backends, settings: PublicSettings, deps: &Deps) -> Front {
    let PublicSettings { quotas, networks, base_url, proxies, hosts, publishing } = settings;
    let Publishing { policy, site } = publishing;
    let Deps { clock, random, metrics, cache_bytes, renderer } = deps;
    let service = PageService::new(ServiceParts {
        store: backends.store,
        limiter: backends.limiter,
        renderer: Arc::clone(renderer),
        clock: Arc::clone(clock),
        random: random.clone(),
        quotas,
        networks,
        policy,
        large_bytes: LARGE_BYTES,
        pages: PageCache::new(*cache_bytes, metrics.page_cache.clone()),
    });
    let telemetry = RequestTelemetry {
        metrics: Arc::clone(metrics),
        clock: Arc::clone(clock),
        random: random.clone(),
        trusted_proxies: proxies.networks.clone(),
    };
    let tools = Mcp {
        service: service.clone(),
        base_url: base_url.clone(),
        proxies: proxies.clone(),
        metrics: Arc::clone(metrics),
    };
    let http = Http::new(service, base_url, proxies, site);
    front(http, Tools::new(tools, hosts), telemetry)
}

/// Connects to nothing and leaves the store alone, so that it can run beside the serving process.
pub fn check(settings: &Settings) -> Result<(), StartError> {
    if let Some(path) = &settings.moderation.blocklist_file {
        let read = Blocklist::read(path, &own_hosts(settings));
        read.map_err(|reason| StartError::Blocklist { path: path.clone(), reason })?;
    }
    check_start(settings)
}

/// They can be on no blocklist.
fn own_hosts(settings: &Settings) -> Vec<String> {
    let HttpSettings { address, mcp_base_url, .. } = &settings.http;
    let site = address.origin(address.listen);
    [&site].into_iter().chain(mcp_base_url).filter_map(|origin| parse_host(origin.host_text())).collect()
}

fn policy(metrics: &Metrics) -> PublishingPolicy {
    let refusals = metrics.publishing_refusals.clone();
    // The objective of writes subtracts pauses, so these series start at 0.
    for reason in ["content", "blocklist", "paused"] {
        drop(refusals.get_or_create(&RefusalLabels { reason }));
    }
    PublishingPolicy::observed(move |reason| {
        refusals.get_or_create(&RefusalLabels { reason }).inc();
    })
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
    let exporting = settings.traces.address().map(|address| export::start(&address, &Random::System));
    let (tracer, exports) = exporting.transpose()?.unzip();
    let (guard, dropped_lines) = logs::install(&settings.logs, tracer);
    *last_lines.lock() = Some(guard);
    let metrics = Arc::new(Metrics::with_log(Some(dropped_lines)));
    let deps = Deps { metrics, cache_bytes: settings.cache.bytes(), ..Deps::system() };
    let Deps { clock, random, metrics, .. } = &deps;
    check_start(&settings)?;
    let admin_socket = settings.admin_socket();
    socket::refuse_if_answered(&admin_socket)?;
    let policy = policy(metrics);
    if let Some(path) = settings.moderation.blocklist_file.clone() {
        BlocklistFile::new(path, own_hosts(&settings), policy.clone(), Arc::clone(metrics)).follow();
    }

    let (listener, address) = listen(settings.http.address.listen, "--listen")?;
    let (admin_listener, admin_address) = listen(settings.admin.admin_listen, "--admin-listen")?;
    let base_url = settings.http.address.origin(address);
    let proxies = TrustedProxies { networks: settings.http.trusted_proxies.clone() };
    let readiness = Arc::new(Readiness::new(metrics.draining.clone()));
    let (backends, mut handle) = Backends::open(&settings, new_store, &deps, &readiness, &policy).await?;
    let own = [&base_url].into_iter().chain(&settings.http.mcp_base_url);
    let (names, origins) = settings.http.allowed();
    let hosts = AllowedHosts::new(own, names, origins);
    let quotas = settings.rate_limits.quotas();
    let store = backends.store.clone();
    let publishing = Publishing::of(&settings, &policy);
    let networks = settings.rate_limits.limit_networks.clone();
    let base = base_url.clone();
    let public = PublicSettings { quotas, networks, base_url: base, proxies, hosts, publishing };
    let public = public_over(backends, public, &deps);

    let (phase, phases) = watch::channel(Phase::Serving);
    let limits = Limits::of(settings.http.max_connections(), &settings.http.trusted_proxies);
    // Alerts divide by this value.
    metrics.connections_max.set(i64::try_from(limits.connections).unwrap_or(i64::MAX));
    // Probes and the socket answer until the process ends, so that operators can watch it drain.
    let probes = Probes {
        metrics: Arc::clone(metrics),
        readiness: Arc::clone(&readiness),
        database: handle.database(&settings),
    };
    probes::start(admin_listener, probes)?;
    let operated = handle.served().operated();
    // A cluster is not reached yet; an SQLite store must take creates at once.
    let _ = pause::read(&*operated, &policy, metrics).await;
    let following = tokio::spawn(pause::follow(Arc::clone(&operated) as _, policy.clone(), Arc::clone(metrics)));
    let api = AdminApi {
        operators: Operators::new(store, Arc::clone(clock), random.clone()),
        importer: Importer { store: operated, renderer: Arc::clone(&deps.renderer) },
        policy,
        metrics: Arc::clone(metrics),
        clock: Arc::clone(clock),
        store: handle.served(),
    };
    tokio::spawn(socket::serve(socket::listen(&admin_socket)?, api::router(api)));

    let location = handle.location(&settings).await;
    announce(&base_url, address, admin_address, &location, limits.connections);
    let counted = ListenerMetrics { open: metrics.connections.clone(), refused: metrics.connections_refused.clone() };
    let serving = serve_connections(listener, public, limits, counted, phases);
    let limits = drain_limits(&settings.http);
    let ended = tokio::select! {
        ended = drain::run(serving, phase, async || signals.next().await, &readiness, limits) => ended,
        error = handle.fatal_error() => {
            readiness.set_missing(STORE, error.to_string());
            return Err(error);
        }
    };
    // It would report a closed store as an error.
    following.abort();
    let flush = async {
        if let Some(exports) = exports {
            exports.flush(ended.left).await;
        }
    };
    // A second signal may end this: acknowledged writes are on disk.
    tokio::select! {
        ((), ()) = async { tokio::join!(handle.close(), flush) } => {}
        () = signals.next() => {}
    }
    if let Some(error) = handle.fatal_error().now_or_never() {
        return Err(error);
    }
    Ok(if ended.is_complete { ExitCode::SUCCESS } else { ExitCode::from(CUT_SHORT) })
}
