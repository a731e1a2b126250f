//! Serving connections: how many there may be, how long each part of a request may take, and how they end.
//!
//! HTTP/1.1 only. A load balancer, which terminates TLS and HTTP/2, is expected in front of anything public.

mod timed_io;

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use self::timed_io::{Exchange, TimedIo};
use crate::domain::client::Peer;

/// How much a listener grants.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at once. Further ones wait in the operating system's queue until one ends.
    pub connections: usize,
    /// How long the head of a request may take, from the opening of the connection or from its first byte.
    pub head: Duration,
    /// How long a connection may rest between two requests.
    pub idle: Duration,
    /// How long a client may take to read 4096 bytes of an answer.
    pub write: Duration,
}

impl ServerLimits {
    /// For the public listener.
    pub const PUBLIC: Self = Self {
        // At about 30 KB a resting connection, 300 MB; file descriptors allow it where `ulimit -n` is 16384 or more.
        connections: 10_000,
        head: Duration::from_secs(10),
        // Longer than the 60 s of common load balancers, so that it is they who close and no request meets a close.
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
    };

    /// For the operators' listener, which a probe must always reach.
    pub const ADMIN: Self = Self { connections: 100, ..Self::PUBLIC };
}

/// Largest request head that is read at all, in bytes; over it hyper answers 431 without a body. It is above what
/// [`crate::problem::MAX_HEAD_BYTES`] allows, so that what is a little too large is told so in words.
const READ_HEAD_BYTES: usize = 64 * 1024;

/// How long a client that had only just connected when draining began has to send its first request.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// How long the queue of connections must stay empty before draining closes it.
const QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// How long to wait before accepting again when the operating system refused: out of file descriptors, mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `app` on `listener` until `drain` turns true; returns when the last connection has ended.
///
/// From then on nothing new is accepted but what waits in the queue already, resting connections are closed at once,
/// and each request in flight is answered with `Connection: close`.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    limits: ServerLimits,
    open: Gauge,
    drain: watch::Receiver<bool>,
) {
    let connections = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(limits.connections));
    let start = |stream: TcpStream, peer: Peer, permit: OwnedSemaphorePermit| {
        let (app, open, drain) = (app.clone(), open.clone(), drain.clone());
        connections.spawn(async move {
            let _permit = permit;
            open.inc();
            serve_connection(stream, peer, app, limits, drain).await;
            open.dec();
        });
    };
    let mut draining = drain.clone();
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&permits).acquire_owned() => permit.expect("the semaphore is never closed"),
            () = until_true(&mut draining) => break,
        };
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => start(stream, Peer(peer), permit),
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = until_true(&mut draining) => break,
        }
    }
    // Clients in the queue believe that they are connected, and may have sent their request.
    while let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
        let accepted = tokio::time::timeout(QUEUE_PAUSE, listener.accept()).await;
        let Ok(Ok((stream, peer))) = accepted else { break };
        start(stream, Peer(peer), permit);
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn serve_connection(
    stream: TcpStream,
    peer: Peer,
    app: Router,
    limits: ServerLimits,
    mut drain: watch::Receiver<bool>,
) {
    // Answers are written whole; waiting to fill a segment would only delay them.
    let _ = stream.set_nodelay(true);
    let exchange = Arc::new(Exchange::new(limits));
    let service = hyper::service::service_fn({
        let exchange = Arc::clone(&exchange);
        move |mut request: Request<Incoming>| {
            exchange.request_began();
            request.extensions_mut().insert(peer);
            let (app, exchange) = (app.clone(), Arc::clone(&exchange));
            async move {
                let Ok(response) = app.oneshot(request.map(Body::new)).await;
                Ok::<_, Infallible>(answered(response, exchange))
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_header_size(READ_HEAD_BYTES)
        .serve_connection(TokioIo::new(TimedIo::new(stream, Arc::clone(&exchange))), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = until_true(&mut drain) => {
            exchange.shorten_wait(LAST_CHANCE);
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients go away, time out and send nonsense all day: nothing that somebody should look at.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Marks the exchange as over once the body of `response` has been handed over or dropped.
fn answered(response: Response<Body>, exchange: Arc<Exchange>) -> Response<AnswerBody> {
    response.map(|body| AnswerBody { body, exchange })
}

/// A body that tells when it is gone.
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

/// Returns once `flag` is true, or can no longer become so.
async fn until_true(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|&on| on).await;
}
