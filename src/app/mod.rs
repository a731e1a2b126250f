//! The composition root: settings → backends → service → routers. The only module that names backends.

mod backends;
mod operators;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use self::backends::{Backends, STORE};
use crate::api::request::client_addr::TrustedProxies;
use crate::backends::redb::{OpenError, WriterError};
use crate::backends::{cql, redis};
use crate::config::{HttpSettings, MigrateSettings, Settings, StoreKind};
use crate::domain::origin::Origin;
use crate::http::{Http, guarded, router};
use crate::mcp::{self, HostCheck, Mcp};
use crate::ports::clock::{SharedClock, SystemClock};
use crate::ports::page_store::PageStore;
use crate::ports::random::Random;
use crate::ports::rate_limiter::Quotas;
use crate::server;
use crate::server::admin::{self, Admin};
use crate::server::drain::{self, DrainLimits, Drained, Phase, Readiness, StopSignals};
use crate::server::{BudgetMetrics, ConnectionMetrics, ServerLimits, ServerMetrics};
use crate::service::PageService;
use crate::telemetry::export::{self, ExportError};
use crate::telemetry::http::RequestTelemetry;
use crate::telemetry::logs::LogQueue;
use crate::telemetry::metrics::{BudgetLabels, CutLabels, Metrics};
use crate::telemetry::spans::Tracer;

/// How long the last lines of the log may take at the process's end.
pub const LOG_FLUSH_TIME: Duration = Duration::from_secs(1);

/// Exit code of a process that ended before its requests were answered.
const CUT_SHORT: u8 = 1;

/// Longest that a client without progress is waited for at the stop.
const LONGEST_STALL: Duration = Duration::from_hours(24);

/// Connections that the operating system keeps until they are accepted, or as many as it allows (`net.core.somaxconn`, 4096).
/// When there are more, it drops a client's first packet, and the client tries again a second later.
const BACKLOG: u32 = 4096;

/// Why the service did not start, or could not go on.
#[derive(Debug, Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({reason}): free it, or choose another with {option}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The option that names it.
        option: &'static str,
        /// What the operating system said.
        reason: io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The store ended while it served.
    #[error(transparent)]
    StoreEnded(Arc<WriterError>),
    /// Replicas would each have limits of their own.
    #[error("name Redis with --redis-url: with --store scylla, replicas share their limits there")]
    NoRedis,
    /// The settings of Redis make no sense.
    #[error(transparent)]
    Redis(#[from] redis::OpenError),
    /// The cluster cannot be used.
    #[error(transparent)]
    Cluster(#[from] cql::ConnectError),
    /// Traces cannot be exported as the settings say.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The runtime or the signals cannot be had.
    #[error("the operating system refused what every process needs ({0})")]
    System(#[from] io::Error),
}

impl StartError {
    /// Whether the service had started, so that starting it again may help.
    pub fn is_after_the_start(&self) -> bool {
        matches!(self, Self::StoreEnded(_))
    }
}

/// Why the schema was not brought up to date.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// The cluster refused or could not be reached. What was applied until then stays; it is safe to run again.
    #[error(transparent)]
    Cluster(#[from] Box<cql::MigrateError>),
    /// The runtime cannot be had.
    #[error("the operating system refused what every process needs ({0})")]
    System(#[from] io::Error),
}

/// What varies between a process and a test, besides the settings.
pub struct Deps {
    /// Tells the time.
    pub clock: SharedClock,
    /// Yields chance.
    pub random: Random,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Makes spans.
    pub tracer: Tracer,
}

impl Deps {
    /// The machine's own, without spans.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            metrics: Arc::new(Metrics::new()),
            tracer: Tracer::off(),
        }
    }
}

/// The public router over `store` and over a limiter and reservations in this process. Whoever calls its tools must be
/// `allowed` to.
pub fn public_router(
    store: Arc<dyn PageStore>,
    quotas: Quotas,
    base_url: Origin,
    proxies: TrustedProxies,
    allowed: HostCheck,
    deps: &Deps,
) -> Router {
    router_over(Backends::in_process(store, deps), quotas, base_url, proxies, allowed, deps)
}

fn router_over(
    backends: Backends,
    quotas: Quotas,
    base_url: Origin,
    proxies: TrustedProxies,
    allowed: HostCheck,
    deps: &Deps,
) -> Router {
    let Deps { clock, random, metrics, tracer } = deps;
    let mut service = PageService::new(
        backends.store,
        backends.limiter,
        backends.reservations,
        backends.renderer,
        Arc::clone(clock),
        random.clone(),
        quotas,
    );
    if backends.renewed_pages_are_written_back {
        service = service.writing_renewed_pages_back();
    }
    let telemetry = RequestTelemetry {
        metrics: Arc::clone(metrics),
        clock: Arc::clone(clock),
        random: random.clone(),
        tracer: tracer.clone(),
        trusted_proxies: proxies.networks.clone(),
    };
    let tools = Mcp {
        service: service.clone(),
        base_url: base_url.clone(),
        proxies: proxies.clone(),
        metrics: Arc::clone(metrics),
        tracer: tracer.clone(),
    };
    router(Http::new(service, base_url, proxies), mcp::router(tools, allowed, guarded), telemetry)
}

/// Serves until a signal ends it. Lines for the operator go to `log`.
pub fn serve(settings: Settings, log: &LogQueue) -> Result<ExitCode, StartError> {
    settings.logs.install(log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Before anything else, so that a signal during the start is not lost.
    let signals = runtime.block_on(async { StopSignals::install() })?;
    let last_lines = log.clone();
    drain::enforce(drain_limits(&settings.http), move |overdue| {
        tracing::error!("{overdue}");
        last_lines.flush(LOG_FLUSH_TIME);
        process::exit(CUT_SHORT.into());
    })?;
    let exit_code = runtime.block_on(serve_async(settings, signals, log));
    // What still runs was cut off, and may be waiting for a disk.
    runtime.shutdown_background();
    exit_code
}

fn drain_limits(settings: &HttpSettings) -> DrainLimits {
    DrainLimits { delay: settings.drain_delay, timeout: settings.drain_timeout }
}

async fn serve_async(settings: Settings, mut signals: StopSignals, log: &LogQueue) -> Result<ExitCode, StartError> {
    let (listener, address) = listen(settings.http.address.listen, "--listen")?;
    let (admin_listener, admin_address) = listen(settings.admin.admin_listen, "--admin-listen")?;
    let metrics = Arc::new(Metrics::with_log(log.dropped()));
    let mut deps = Deps { metrics, ..Deps::system() };
    let mut exports = None;
    if let Some(to) = settings.telemetry.export() {
        let (tracer, exporting) = export::start(&to, &deps.metrics, &deps.clock, &deps.random)?;
        deps.tracer = tracer;
        exports = Some(exporting);
    }
    let base_url = settings.http.address.origin(address);
    let proxies =
        TrustedProxies { networks: settings.http.trusted_proxies.clone(), header: settings.http.forwarded_header };
    let metrics = &deps.metrics;
    let readiness = Arc::new(Readiness::new(metrics.draining.clone()));
    let (backends, mut kept) = Backends::open(&settings, &deps, &readiness).await?;
    let HttpSettings { mcp_allowed_hosts, mcp_allowed_origins, .. } = &settings.http;
    let allowed = HostCheck::new(&base_url, mcp_allowed_hosts.clone(), mcp_allowed_origins.clone());
    let app = router_over(backends, settings.limits.quotas(), base_url.clone(), proxies.clone(), allowed, &deps);

    let (phase, phases) = watch::channel(Phase::Serving);
    // Before the first scrape, or a share of it would be a share of nothing.
    let public = server_limits(&settings.http).within(server::room_for_connections());
    metrics.connections_max.set(i64::try_from(public.connections).unwrap_or(i64::MAX));
    // It outlives the public listener, so that draining can be watched.
    let admin = admin::router(Admin { metrics: Arc::clone(metrics), readiness: Arc::clone(&readiness) });
    let (_admin_phase, admin_phases) = watch::channel(Phase::Serving);
    operators::start(admin_listener, admin, admin_phases)?;

    announce(&base_url, address, admin_address, &kept.place(&settings));
    let serving = server::serve(listener, app, public, proxies, server_metrics(metrics), phases);
    let limits = drain_limits(&settings.http);
    let ended = tokio::select! {
        ended = drain::run(serving, phase, &mut signals, &readiness, limits) => ended,
        error = kept.failed() => {
            readiness.set_missing(STORE, error.to_string());
            return Err(error);
        }
    };
    let flush = async {
        if let Some(exports) = exports {
            exports.flush(ended.left).await;
        }
    };
    // What was acknowledged is on disk already, so that a signal need not wait for this.
    tokio::select! {
        ((), ()) = async { tokio::join!(kept.close(), flush) } => {}
        () = signals.next() => {}
    }
    if let Some(error) = kept.failed().now_or_never() {
        return Err(error);
    }
    Ok(match ended.drained {
        Drained::Complete => ExitCode::SUCCESS,
        Drained::CutShort => ExitCode::from(CUT_SHORT),
    })
}

/// What the public listener grants.
fn server_limits(http: &HttpSettings) -> ServerLimits {
    ServerLimits {
        connections: http.max_connections as usize,
        connections_per_client: http.connections_per_client() as usize,
        receiving: http.receive_budget.0,
        sending: http.send_budget.0,
        // A client that does nothing must not decide how long a stop takes. The bound keeps sums of times in their range.
        stalled_at_stop: (http.drain_timeout / 3).min(LONGEST_STALL),
        ..ServerLimits::PUBLIC
    }
}

/// The instruments of the public listener.
fn server_metrics(metrics: &Metrics) -> ServerMetrics {
    let cut = |reason| metrics.connections_cut.get_or_create(&CutLabels { reason }).clone();
    let budget = |budget, reason| {
        let labels = BudgetLabels { budget };
        BudgetMetrics {
            held: metrics.budget_held.get_or_create(&labels).clone(),
            limit: metrics.budget_limit.get_or_create(&labels).clone(),
            refused: metrics.budget_refusals.get_or_create(&labels).clone(),
            evicted: cut(reason),
        }
    };
    ServerMetrics {
        open: metrics.connections.clone(),
        connections: ConnectionMetrics {
            over_client_limit: cut("client_limit"),
            full: cut("full"),
            resting: cut("resting"),
            slow: cut("slow"),
        },
        receiving: budget("receive", "receive_budget"),
        sending: budget("send", "send_budget"),
    }
}

/// Brings the store's schema up to date, and says what was done.
pub fn migrate(settings: &MigrateSettings, log: &LogQueue) -> Result<String, MigrateError> {
    settings.logs.install(log);
    match settings.store.store {
        StoreKind::Embedded => Ok("The embedded store needs no migration.".to_owned()),
        StoreKind::Scylla => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            Ok(runtime.block_on(cql::migrate(&settings.scylla, &Random::System)).map_err(Box::new)?.to_string())
        }
    }
}

fn listen(address: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |reason| StartError::Listen { address, option, reason };
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A process that has just ended must not keep the next from starting.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let listener = bind().map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Says on standard output where everything is, and how to publish.
fn announce(base_url: &Origin, address: SocketAddr, admin: SocketAddr, place: &str) {
    let text = format!(
        "Handbill {version} listens on http://{address} and gives out addresses at {base_url}
Operators: http://{admin}/metrics, /livez, /readyz
Data:      {place}
Publish:   curl {base_url}/api/pages -H 'Content-Type: application/json' -d '{{\"title\": \"Hello, world\", \"content\": \"A *first* page.\"}}'
",
        version = env!("CARGO_PKG_VERSION"),
    );
    // Whoever started the service may have closed its output: no reason not to serve.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
