//! The composition root: settings → backends → service → routers. The only module that names backends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::admin::{self, Admin};
use crate::backends::embedded::{EmbeddedStore, InProcessReservations, OpenError, WindowLimiter};
use crate::backends::measured::Measured;
use crate::clock::{SharedClock, SystemClock};
use crate::config::{Settings, StoreKind};
use crate::domain::origin::Origin;
use crate::entropy::{SharedEntropy, SystemEntropy};
use crate::http::client_ip::TrustedProxies;
use crate::http::{Http, router};
use crate::lifecycle::{self, DrainLimits, Drained, Phase, Readiness, StopSignals};
use crate::limits::Quotas;
use crate::service::PageService;
use crate::store::PageStore;
use crate::telemetry::http::RequestTelemetry;
use crate::telemetry::logs::{self, LogFormat};
use crate::telemetry::metrics::Metrics;
use crate::{server, server::ServerLimits};

/// Why the service did not start.
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
    /// The runtime or the signals cannot be had.
    #[error("the operating system refused what every process needs ({0})")]
    System(#[from] io::Error),
}

/// What varies between a process and a test, besides the settings.
pub struct Surroundings {
    /// Tells the time.
    pub clock: SharedClock,
    /// Yields chance.
    pub entropy: SharedEntropy,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

impl Surroundings {
    /// The machine's own.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            metrics: Arc::new(Metrics::new()),
        }
    }
}

/// The public router over `store` and over a limiter and reservations in this process.
pub fn public_router(
    store: Arc<dyn PageStore>,
    quotas: Quotas,
    base_url: Origin,
    proxies: TrustedProxies,
    around: &Surroundings,
) -> Router {
    let Surroundings { clock, entropy, metrics } = around;
    let measure = Measured { metrics: Arc::clone(metrics), clock: Arc::clone(clock) };
    let service = PageService::new(
        measure.store(store),
        measure.limiter(Arc::new(WindowLimiter::new(Arc::clone(clock)))),
        measure.reservations(Arc::new(InProcessReservations::new(Arc::clone(clock)))),
        Arc::clone(clock),
        Arc::clone(entropy),
        quotas,
    );
    let telemetry =
        RequestTelemetry { metrics: Arc::clone(metrics), clock: Arc::clone(clock), entropy: Arc::clone(entropy) };
    router(Http::new(service, base_url, proxies), telemetry)
}

/// Serves until a signal ends it.
pub fn serve(settings: Settings) -> Result<ExitCode, StartError> {
    logs::install(settings.log_format.unwrap_or_else(LogFormat::fitting), settings.log.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit_code = runtime.block_on(serve_async(settings));
    // What still runs was cut off, and may be waiting for a disk.
    runtime.shutdown_background();
    exit_code
}

async fn serve_async(settings: Settings) -> Result<ExitCode, StartError> {
    // Before anything else, so that a signal during the start is not lost.
    let mut signals = StopSignals::install()?;
    let (listener, address) = listen(settings.http.listen, "--listen").await?;
    let (admin_listener, admin_address) = listen(settings.admin_listen, "--admin-listen").await?;
    let around = Surroundings::system();
    let StoreKind::Embedded = settings.store.store;
    let store = Arc::new(open_store(settings.store.data_dir.clone(), &around.metrics).await?);

    let base_url = settings.http.base_url.clone().unwrap_or_else(|| Origin::of_listener(address));
    let proxies =
        TrustedProxies { networks: settings.http.trusted_proxies.clone(), header: settings.http.forwarded_header };
    let app = public_router(
        Arc::clone(&store) as Arc<dyn PageStore>,
        settings.limits.quotas(),
        base_url.clone(),
        proxies,
        &around,
    );

    let metrics = &around.metrics;
    let readiness = Arc::new(Readiness::new(metrics.draining.clone()));
    let (phase, phases) = watch::channel(Phase::Serving);
    // It outlives the public listener, so that draining can be watched.
    let admin = admin::router(Admin { metrics: Arc::clone(metrics), readiness: Arc::clone(&readiness) });
    let (_admin_phase, admin_phases) = watch::channel(Phase::Serving);
    let uncounted = prometheus_client::metrics::gauge::Gauge::default();
    tokio::spawn(server::serve(admin_listener, admin, ServerLimits::ADMIN, uncounted, admin_phases));

    announce(&base_url, address, admin_address, &settings.store.data_dir);
    let serving = server::serve(listener, app, ServerLimits::PUBLIC, metrics.connections.clone(), phases);
    let limits = DrainLimits { delay: settings.http.drain_delay, timeout: settings.http.drain_timeout };
    let drained = lifecycle::run(serving, phase, &mut signals, &readiness, limits).await;
    // What was acknowledged is on disk already, so that a signal need not wait for this.
    tokio::select! {
        () = store.close() => {}
        () = signals.next() => {}
    }
    Ok(match drained {
        Drained::Complete => ExitCode::SUCCESS,
        Drained::CutShort => ExitCode::FAILURE,
    })
}

async fn listen(address: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |reason| StartError::Listen { address, option, reason };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

async fn open_store(data_dir: PathBuf, metrics: &Arc<Metrics>) -> Result<EmbeddedStore, StartError> {
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&data_dir)).await;
    let store = opened.map_err(io::Error::other)??;
    let commit_writes = metrics.commit_writes.clone();
    store.observe_commits(move |committed| {
        #[expect(clippy::cast_precision_loss, reason = "a batch has far fewer than 2^52 writes")]
        commit_writes.observe(committed.operations as f64);
    });
    Ok(store)
}

/// Says on standard output where everything is, and how to publish.
fn announce(base_url: &Origin, address: SocketAddr, admin: SocketAddr, data_dir: &Path) {
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let text = format!(
        "Handbill {version} listens on http://{address} and gives out addresses at {base_url}
Operators: http://{admin}/metrics, /livez, /readyz
Data:      {data}
Publish:   curl {base_url}/api/pages -H 'Content-Type: application/json' -d '{{\"title\": \"Hello, world\", \"content\": \"A *first* page.\"}}'
",
        version = env!("CARGO_PKG_VERSION"),
        data = data_dir.display(),
    );
    // Whoever started the service may have closed its output: no reason not to serve.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
