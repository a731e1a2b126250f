//! Serves connections: how many there may be, how long each part of a request may take, how many bytes they may hold,
//! and how they end.
//!
//! The server speaks HTTP/1.1 only. Put a load balancer that terminates TLS and HTTP/2 in front of a public listener.

mod app;
mod bodies;
mod budgets;
mod clients;
mod conn_state;
mod connection;
mod connections;
mod cut;
pub mod drain;
mod fd_limit;
mod framing;
mod head_checks;
mod limits;
mod shares;
mod socket;
mod timeout_io;
mod timer;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

pub use self::app::{App, Refusal};
pub use self::budgets::{BudgetMetrics, Full};
pub use self::clients::{Client, Clients};
pub use self::conn_state::AnswerBudget;
pub use self::connections::ConnectionMetrics;
pub use self::fd_limit::room_for_connections;
pub use self::limits::{MAX_HEAD_BYTES, ServerLimits};

use self::budgets::Budget;
use self::conn_state::{ConnState, Shared};
use self::connection::{Connection, DRAIN_ACCEPT_GRACE, stop};
use self::connections::Connections;
use self::cut::Cut;
use self::drain::Phase;

/// How long to wait after an error before accepting again. The usual error is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of connections that were ended for others and are still closing. Their file descriptors come on top
/// of the limit of connections.
const MAX_CLOSING: usize = 64;

/// Connections that the operating system queues until they are accepted, or as many as it allows (`net.core.somaxconn`,
/// 4096). When the queue is full, the operating system drops a client's first packet, and the client tries again a
/// second later.
pub const BACKLOG: u32 = 4096;

#[derive(Clone, Debug, Default)]
pub struct ServerMetrics {
    pub open: Gauge,
    /// Connections that were ended or refused.
    pub connections: ConnectionMetrics,
    pub receiving: BudgetMetrics,
    /// The budget of answers being sent.
    pub sending: BudgetMetrics,
    /// Bytes that were handed to the kernel for clients.
    pub sent_bytes: Counter,
}

/// The connections of a listener, and what a new one needs.
struct Server<A, C> {
    app: A,
    clients: Arc<C>,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    open: Gauge,
    phase: watch::Receiver<Phase>,
    tasks: TaskTracker,
    /// One permit for each connection, including connections that are still closing.
    permits: Arc<Semaphore>,
}

/// Serves `app` on `listener` until `phase` is [`Phase::Stopping`]; returns when the last connection has ended.
///
/// In [`Phase::Leaving`] each answer carries `Connection: close`, so that clients move elsewhere. From
/// [`Phase::Stopping`] on, only connections that already wait in the queue are accepted, idle connections are closed,
/// and each request in flight is answered. Requests are charged to the clients that `clients` names.
pub async fn serve(
    listener: TcpListener,
    app: impl App,
    limits: ServerLimits,
    clients: impl Clients,
    metrics: ServerMetrics,
    phase: watch::Receiver<Phase>,
) {
    if let Err(error) = socket::bound_buffers(&listener) {
        tracing::warn!(%error, "could not bound the kernel's buffers");
    }
    let server = Server {
        app,
        clients: Arc::new(clients),
        shared: Arc::new(Shared {
            limits,
            receiving: Budget::new(limits.receiving, metrics.receiving),
            sending: Budget::new(limits.sending, metrics.sending),
            sent_bytes: metrics.sent_bytes,
        }),
        connections: Connections::new(limits.connections, limits.connections_per_client, metrics.connections),
        open: metrics.open,
        phase: phase.clone(),
        tasks: TaskTracker::new(),
        permits: Arc::new(Semaphore::new(limits.connections + MAX_CLOSING.min(limits.connections / 4 + 1))),
    };
    let mut stopping = phase;
    let stopped = async {
        stop(&mut stopping).await;
        tokio::time::sleep(DRAIN_ACCEPT_GRACE).await;
    };
    let mut stopped = pin!(stopped);
    let mut refused = false;
    loop {
        let accept = async {
            let permit = Arc::clone(&server.permits).acquire_owned().await.expect("the semaphore is never closed");
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            accepted = accept => accepted,
            () = stopped.as_mut() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                refused = false;
                server.start(stream, peer, permit);
            }
            // The client disconnected while it waited in the queue.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Logged once until accepting works again; otherwise it would be 20 lines a second.
                if !std::mem::replace(&mut refused, true) {
                    tracing::warn!(%error, "could not accept a connection");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Clients in the queue consider themselves connected and may have sent their request. Those that go on arriving must not
    // hold up the end, so no more are taken than the queue can have held.
    if let Ok(listener) = listener.into_std() {
        for _ in 0..BACKLOG {
            let Ok(permit) = Arc::clone(&server.permits).try_acquire_owned() else { break };
            let Ok((stream, peer)) = listener.accept() else { break };
            if let Ok(stream) = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream)) {
                server.start(stream, peer, permit);
            }
        }
    }
    server.tasks.close();
    server.tasks.wait().await;
}

impl<A: App, C: Clients> Server<A, C> {
    /// Serves a connection, or closes it if there is no place for it.
    fn start(&self, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        let address = peer.ip().to_canonical();
        let (client, cut) = (self.clients.of_peer(address), Arc::new(Cut::default()));
        let is_exempt = self.clients.is_exempt(address);
        let Ok(place) = self.connections.admit(client, is_exempt, &cut) else { return };
        let connection = Connection {
            app: self.app.clone(),
            clients: Arc::clone(&self.clients),
            conn: Arc::new(ConnState::new(Arc::clone(&self.shared), client, Arc::clone(&cut), place)),
            cut,
            peer,
            phase: self.phase.clone(),
        };
        let open = GaugeGuard::new(&self.open);
        self.tasks.spawn(async move {
            let _held = (permit, open);
            connection.serve(stream).await;
        });
    }
}

/// Counts one on a gauge until it is dropped.
struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
