//! Serving connections: how many there may be, how long each part of a request may take, and how they end.
//!
//! HTTP/1.1 only. A load balancer, which terminates TLS and HTTP/2, is expected in front of anything public.

mod descriptors;
mod timed_io;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

pub use self::descriptors::room_for_connections;
use self::timed_io::{Exchange, TimedIo};
use crate::domain::client::Peer;
use crate::lifecycle::Phase;

/// How much a listener grants.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at once. Further ones wait in the operating system's queue until one ends.
    pub connections: usize,
    /// How long the head of a request may take, from the opening of the connection or from its first byte.
    pub head: Duration,
    /// How long a connection may rest between two requests.
    pub idle: Duration,
    /// How long a client may take to read 64 KiB of an answer.
    pub write: Duration,
}

impl ServerLimits {
    /// For the public listener.
    pub const PUBLIC: Self = Self {
        // At about 30 KB a resting connection, 300 MB. One whose client reads slowly holds its answer as well, which is
        // at most about 1 MB; what is demanded of `write` is there to make holding many of them costly.
        connections: 10_000,
        head: Duration::from_secs(10),
        // Longer than the 60 s of common load balancers, so that it is they who close and no request meets a close.
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
    };

    /// These limits, with no more connections than there is `room` for.
    #[must_use]
    pub fn within(self, room: usize) -> Self {
        Self { connections: self.connections.min(room), ..self }
    }

    /// For the operators' listener, which a probe must always reach.
    pub const ADMIN: Self = Self { connections: 100, ..Self::PUBLIC };
}

/// Largest request head that is read at all, in bytes; over it hyper answers 431 without a body. It is above what
/// [`crate::problem::MAX_HEAD_BYTES`] allows, so that what is a little too large is told so in words.
const READ_HEAD_BYTES: usize = 64 * 1024;

/// How long a client that had only just connected when draining began has to send its first request.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// How long after the stop connections are still accepted and resting ones kept, for what was on its way already.
const ON_THE_WAY: Duration = Duration::from_millis(20);

/// How long to wait before accepting again when the operating system refused: out of file descriptors, mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `app` on `listener` until `phase` says stop; returns when the last connection has ended.
///
/// While it says leave, each answer carries `Connection: close`, so that clients move elsewhere. From the stop on
/// nothing new is accepted but what waits in the queue already, resting connections are closed, and each request in
/// flight is answered.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    limits: ServerLimits,
    open: Gauge,
    phase: watch::Receiver<Phase>,
) {
    let connections = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(limits.connections));
    let start = |stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit| {
        let connection = Connection { app: app.clone(), limits, phase: phase.clone(), _open: Counted::new(&open) };
        connections.spawn(async move {
            let _permit = permit;
            connection.serve(stream, Peer(peer)).await;
        });
    };
    let mut stopping = phase.clone();
    let stopped = async {
        stop(&mut stopping).await;
        tokio::time::sleep(ON_THE_WAY).await;
    };
    let mut stopped = pin!(stopped);
    let mut refused = false;
    loop {
        let accept = async {
            let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            accepted = accept => accepted,
            () = stopped.as_mut() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                refused = false;
                start(stream, peer, permit);
            }
            // The client has gone away again while it waited in the queue.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Once until it works again: it would be twenty times a second.
                if !std::mem::replace(&mut refused, true) {
                    tracing::warn!(%error, "could not accept a connection");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Clients in the queue believe that they are connected, and may have sent their request.
    if let Ok(listener) = listener.into_std() {
        while let Ok(permit) = Arc::clone(&permits).try_acquire_owned()
            && let Ok((stream, peer)) = listener.accept()
        {
            if let Ok(stream) = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream)) {
                start(stream, peer, permit);
            }
        }
    }
    connections.close();
    connections.wait().await;
}

/// What one connection needs.
struct Connection {
    app: Router,
    limits: ServerLimits,
    phase: watch::Receiver<Phase>,
    _open: Counted,
}

impl Connection {
    async fn serve(mut self, stream: TcpStream, peer: Peer) {
        // Answers are written whole; waiting to fill a segment would only delay them.
        let _ = stream.set_nodelay(true);
        let exchange = Arc::new(Exchange::new(self.limits));
        let service = hyper::service::service_fn({
            let (app, phase, exchange) = (self.app, self.phase.clone(), Arc::clone(&exchange));
            move |request: Request<Incoming>| {
                exchange.request_began(!request.body().is_end_stream());
                let mut request = request.map(|body| Body::new(RequestBody { body, exchange: Arc::clone(&exchange) }));
                request.extensions_mut().insert(peer);
                let (app, phase, exchange) = (app.clone(), phase.clone(), Arc::clone(&exchange));
                async move {
                    let Ok(mut response) = app.oneshot(request).await;
                    if *phase.borrow() != Phase::Serving {
                        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                    Ok::<_, Infallible>(response.map(|body| AnswerBody { body, exchange }))
                }
            }
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_header_size(READ_HEAD_BYTES)
            .serve_connection(TokioIo::new(TimedIo::new(stream, Arc::clone(&exchange))), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = stop(&mut self.phase) => {
                // Not hyper's graceful shutdown, which closes a connection whose first request is about to arrive.
                exchange.finish(LAST_CHANCE, ON_THE_WAY);
                connection.await
            }
        };
        if let Err(error) = ended {
            // Clients go away, time out and send nonsense all day: nothing that somebody should look at.
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// One on a gauge while it lives.
struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A request's body that tells when it was read to its end.
struct RequestBody {
    body: Incoming,
    exchange: Arc<Exchange>,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.exchange.request_was_read();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body that tells when it was handed over or dropped.
struct AnswerBody {
    body: Body,
    exchange: Arc<Exchange>,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.exchange.request_ended();
    }
}

/// Returns once `phase` says stop, or can no longer do so.
async fn stop(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|&phase| phase == Phase::Stopping).await;
}
