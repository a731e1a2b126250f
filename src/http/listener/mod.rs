//! Serves HTTP/1.1 with hyper: connections, a client's share of them, time limits, and draining.
//!
//! Put a load balancer with TLS and HTTP/2 in front of a public listener.

mod bodies;
mod slots;

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use http::{HeaderValue, Request, header::CONNECTION};
use http_body::Body as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use ipnet::IpNet;
use prometheus_client::metrics::gauge::Gauge;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutWriter;
use tower::Service;

use self::bodies::CountedBody;
pub use self::bodies::LargeAnswers;
use self::slots::{ClientSlot, ClientSlots, ConnectionState, Waiting};
use crate::http::request::MAX_HEAD_BYTES;
use crate::telemetry::metrics::Metrics;
use handbill_pages::values::client::Peer;

/// Up to [`MAX_HEAD_BYTES`] the service answers with advice; the rest is for what it does not count.
const HYPER_HEAD_BYTES: usize = MAX_HEAD_BYTES + 2 * 1024;

/// Longer than load balancers keep an idle connection (60 s), so that they close first.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a client may leave its response unread. Shorter than the default of `--drain-timeout`, so that a stalled
/// client cannot delay a stop.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(12);

/// How long new connections are accepted after the stop began.
const STOP_GRACE: Duration = Duration::from_millis(50);

/// How long connections stay open after that for requests that are on the way: a few round trips.
const LAST_REQUESTS: Duration = Duration::from_millis(250);

/// Pause after `accept` has failed, usually because the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// File descriptors kept for the database, the log and the operators. If the limit is low, half of it is kept.
const RESERVED_DESCRIPTORS: usize = 256;

/// Each connection that waits to be accepted may hold 32 KB in the kernel. If the queue is full, a client tries again a second later.
const BACKLOG: u32 = 1024;

/// Of an answer until it is confirmed, and of a request until it is read. The kernel doubles both, as memory of the
/// control group.
const KERNEL_BYTES: u32 = 16 * 1024;

#[derive(Debug, Error)]
#[error("cannot listen on {address} ({reason}): free it, or choose another with {option}")]
pub struct ListenError {
    address: SocketAddr,
    option: &'static str,
    reason: io::Error,
}

/// Also returns the actual address: port 0 takes a free one.
pub fn listen(address: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), ListenError> {
    bind(address).map_err(|reason| ListenError { address, option, reason })
}

fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A process that has just ended must not block the next one.
    socket.set_reuseaddr(true)?;
    // Connections inherit these.
    socket.set_send_buffer_size(KERNEL_BYTES)?;
    socket.set_recv_buffer_size(KERNEL_BYTES)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Serving,
    /// Serves, but asks clients to leave.
    Leaving,
    Stopping,
}

#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// The most connections at once. When a new client comes, the connection that has waited longest for its client ends.
    pub connections: usize,
    pub connections_per_client: usize,
    /// Networks that may have any number of connections.
    pub exempt: Vec<IpNet>,
    /// Of all bodies until their requests are answered.
    pub bodies: usize,
}

impl ConnectionLimits {
    /// One eighth of the connections.
    const SHARE_OF_A_CLIENT: usize = 8;

    /// Fewer if the process has few file descriptors. `proxies` and this machine are exempt.
    pub fn of(connections: usize, proxies: &[IpNet]) -> Self {
        let connections = connections.min(room_for_connections());
        let connections_per_client = connections.div_ceil(Self::SHARE_OF_A_CLIENT);
        let this_machine = ["127.0.0.0/8", "::1/128"].map(|network| network.parse().expect("it is a network"));
        let exempt = proxies.iter().copied().chain(this_machine).collect();
        Self { connections, connections_per_client, exempt, bodies: 16 * 1024 * 1024 }
    }
}

struct Server<A> {
    app: A,
    http: http1::Builder,
    connections: Arc<Semaphore>,
    slots: Arc<ClientSlots>,
    waiting: Arc<Waiting>,
    bodies: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    phase: watch::Receiver<Phase>,
}

/// Serves until [`Phase::Stopping`], and returns after the last connection.
///
/// In [`Phase::Leaving`], answers carry `Connection: close`. Then idle connections are closed, and requests in flight
/// are answered.
pub async fn serve<A>(
    listener: TcpListener,
    app: A,
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    phase: watch::Receiver<Phase>,
) where
    A: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static,
{
    let server = Arc::new(Server::new(app, &limits, metrics, phase.clone()));
    let graceful = GracefulShutdown::new();
    server.accept(&listener, &graceful, phase).await;
    drop(listener);
    // Hyper closes a connection whose first request it has not seen.
    let all_closed = server.connections.acquire_many(u32::try_from(limits.connections).unwrap_or(u32::MAX));
    let _ = tokio::time::timeout(LAST_REQUESTS, all_closed).await;
    graceful.shutdown().await;
}

async fn stopped_for(grace: Duration, mut phase: watch::Receiver<Phase>) {
    let _ = phase.wait_for(|&phase| phase == Phase::Stopping).await;
    tokio::time::sleep(grace).await;
}

impl<A> Server<A>
where
    A: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static,
{
    fn new(app: A, limits: &ConnectionLimits, metrics: Arc<Metrics>, phase: watch::Receiver<Phase>) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        http.max_header_size(HYPER_HEAD_BYTES).max_buf_size(HYPER_HEAD_BYTES);
        // A client may close its side after its request.
        http.half_close(true);
        Self {
            app,
            http,
            connections: Arc::new(Semaphore::new(limits.connections)),
            slots: Arc::new(ClientSlots::new(limits.connections_per_client, limits.exempt.clone())),
            waiting: Arc::default(),
            bodies: Arc::new(Semaphore::new(limits.bodies)),
            metrics,
            phase,
        }
    }

    /// Takes connections until a little after [`Phase::Stopping`].
    async fn accept(
        self: &Arc<Self>,
        listener: &TcpListener,
        graceful: &GracefulShutdown,
        phase: watch::Receiver<Phase>,
    ) {
        let mut stop = std::pin::pin!(stopped_for(STOP_GRACE, phase.clone()));
        let mut overdue = std::pin::pin!(stopped_for(STOP_GRACE + LAST_REQUESTS, phase));
        let mut refused = false;
        loop {
            // Closing the socket resets connections that wait in it, so these come before the stop, but not for long.
            let accepted = tokio::select! {
                biased;
                () = overdue.as_mut() => return,
                accepted = listener.accept() => accepted,
                () = stop.as_mut() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    refused = false;
                    tokio::select! {
                        biased;
                        open = self.make_room(peer) => if let Some(open) = open {
                            self.start(stream, peer, open, graceful.watcher());
                        },
                        () = stop.as_mut() => return,
                    }
                }
                // The client disconnected before.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Logged once until accepting works again, not 20 times a second.
                    if !std::mem::replace(&mut refused, true) {
                        tracing::warn!(%error, "cannot accept a connection");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Waits for the end of another connection if there are too many. `None` if the client has its share.
    async fn make_room(&self, peer: SocketAddr) -> Option<Open> {
        let Some(slot) = self.slots.take(peer.ip()) else {
            // The client has its share.
            self.metrics.connections_refused.inc();
            return None;
        };
        if self.connections.available_permits() == 0 {
            self.waiting.end_oldest();
        }
        let permit = Arc::clone(&self.connections).acquire_owned().await.expect("the semaphore is never closed");
        Some(Open::new(&self.metrics.connections, slot, permit))
    }

    fn start(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, open: Open, watcher: Watcher) {
        // Answers are written in one go.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(WRITE_TIMEOUT));
        let (server, state) = (Arc::clone(self), Arc::new(ConnectionState::new(&self.waiting)));
        let of_requests = Arc::clone(&state);
        let service = service_fn(move |request| Arc::clone(&server).answer(peer, Arc::clone(&of_requests), request));
        let connection = watcher.watch(self.http.serve_connection(TokioIo::new(Box::pin(stream)), service));
        tokio::spawn(async move {
            let _open = open;
            tokio::select! {
                () = state.ended() => {}
                ended = connection => if let Err(error) = ended {
                    // Clients disconnect and send nonsense all day.
                    tracing::debug!(%error, "a connection ended early");
                },
            }
        });
    }

    async fn answer(
        self: Arc<Self>,
        peer: SocketAddr,
        state: Arc<ConnectionState>,
        request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        if !state.begin() {
            // The connection ends before it can do anything for this request.
            return std::future::pending().await;
        }
        let (mut head, body) = request.into_parts();
        head.extensions.insert(Peer(peer));
        let (body, received) = if body.is_end_stream() {
            (Body::empty(), None)
        } else {
            let (body, received) = CountedBody::new(&head.headers, body, Arc::clone(&self.bodies), Arc::clone(&state));
            (Body::new(body), Some(received))
        };
        let mut response = self.app.clone().call(Request::from_parts(head, body)).await?;
        let is_unread = received.is_some_and(|received| !received.is_whole());
        if state.wait() || is_unread || *self.phase.borrow() != Phase::Serving {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

struct Open {
    gauge: Gauge,
    _slot: ClientSlot,
    _permit: OwnedSemaphorePermit,
}

impl Open {
    fn new(gauge: &Gauge, slot: ClientSlot, permit: OwnedSemaphorePermit) -> Self {
        gauge.inc();
        Self { gauge: gauge.clone(), _slot: slot, _permit: permit }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// Raises the soft limit of file descriptors, often 1024 for `select(2)`, to the hard limit. Returns how many
/// connections fit.
fn room_for_connections() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    limit - RESERVED_DESCRIPTORS.min(limit / 2)
}
