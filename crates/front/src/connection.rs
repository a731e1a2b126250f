//! One connection: it waits for a request, passes it to hyper, sends the answer, and waits again.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures_util::FutureExt;
use http::header::CONNECTION;
use http::{HeaderValue, Request};
use http_body::Body as _;
use http_body_util::{BodyExt, Collected};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::app::{App, Refusal};
use super::bodies::{AnswerBody, RequestBody};
use super::conn_state::{AnswerBudget, ConnState};
use super::cut::Cut;
use super::framing;
use super::socket::Transport;
use super::timeout_io::{HeadError, TimeoutIo};
use crate::clients::Clients;
use crate::drain::Phase;

/// Largest request head that hyper gets, in bytes, and the most of an answer that it buffers.
const HYPER_BYTES: usize = 64 * 1024;

/// Time to send a first request, for a client that had just connected when draining began.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// How long after the stop new connections are still accepted and idle connections are kept open, because requests may
/// already be on their way.
pub(super) const DRAIN_ACCEPT_GRACE: Duration = Duration::from_millis(20);

/// The answer to bytes that hyper takes for no request.
const NO_REQUEST: Refusal = Refusal::Ambiguous(
    "The bytes are no request of HTTP/1.1. Check the first line, and the name and the value of each header.",
);

pub(super) struct Connection<A, C> {
    pub(super) app: A,
    pub(super) clients: Arc<C>,
    pub(super) conn: Arc<ConnState>,
    pub(super) cut: Arc<Cut>,
    pub(super) peer: SocketAddr,
    pub(super) phase: watch::Receiver<Phase>,
}

impl<A: App, C: Clients> Connection<A, C> {
    pub(super) async fn serve(self, stream: TcpStream) {
        // Answers are written in one go, so waiting to fill a segment would only delay them.
        let _ = stream.set_nodelay(true);
        let mut phase = self.phase.clone();
        let mut io = TimeoutIo::new(stream, Arc::clone(&self.conn));
        let was_cut = {
            let mut serving = pin!(self.serve_requests(&mut io));
            tokio::select! {
                biased;
                () = self.cut.happened() => true,
                () = serving.as_mut() => false,
                () = stop(&mut phase) => {
                    // Hyper's graceful shutdown would close a connection whose first request is about to arrive.
                    self.conn.finish(FIRST_REQUEST_GRACE, DRAIN_ACCEPT_GRACE);
                    tokio::select! {
                        biased;
                        () = self.cut.happened() => true,
                        () = serving => false,
                    }
                }
            }
        };
        if was_cut {
            tracing::debug!("a connection was ended to make room");
            io.forget_unsent();
        }
    }

    async fn serve_requests<S: Transport + Send>(&self, io: &mut TimeoutIo<S>) {
        loop {
            match io.next_head().await {
                Ok(()) => {}
                Err(HeadError::Ended) => return,
                Err(HeadError::TooLarge) => return self.refuse(io, Refusal::HeadTooLarge).await,
                Err(HeadError::NoRoom) => return self.refuse(io, Refusal::NoRoom).await,
                Err(HeadError::Invalid(refusal)) => return self.refuse(io, refusal).await,
            }
            // The future is boxed, so that an idle connection does not hold the memory of a request.
            if let Err(error) = Box::pin(self.serve_one(io)).await {
                // Clients disconnect, time out and send nonsense all day, so nobody has to look at this.
                tracing::debug!(%error, "a connection ended early");
                if error.is_parse() && self.conn.is_given() {
                    let is_long = error.is_parse_too_large();
                    self.conn.answered();
                    return self.refuse(io, if is_long { Refusal::HeadTooLarge } else { NO_REQUEST }).await;
                }
            }
            if !io.may_go_on() {
                return io.close().await;
            }
        }
    }

    /// Answers a head that cannot be read, and closes the connection.
    async fn refuse<S: Transport>(&self, io: &mut TimeoutIo<S>, refusal: Refusal) {
        if io.send(&bytes_of(self.app.refuse(refusal))).await.is_ok() {
            io.close().await;
        }
    }

    /// Serves the request whose head is in `io`, until its answer was sent.
    async fn serve_one<S: Transport + Send>(&self, io: &mut TimeoutIo<S>) -> hyper::Result<()> {
        let service = hyper::service::service_fn(|request: Request<Incoming>| {
            let conn = Arc::clone(&self.conn);
            let (mut head, body) = request.into_parts();
            let client = self.clients.of_request(self.peer, &mut head);
            conn.request_began(framing_of(&body), client);
            head.extensions.insert(AnswerBudget::new(Arc::clone(&conn)));
            let body =
                if body.is_end_stream() { Body::empty() } else { Body::new(RequestBody::new(body, Arc::clone(&conn))) };
            let answering = self.app.clone().call(Request::from_parts(head, body));
            let phase = self.phase.clone();
            async move {
                let Ok(mut response) = answering.await;
                let is_last = conn.answered();
                if is_last || *phase.borrow() != Phase::Serving {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response.map(|body| AnswerBody::new(body, conn)))
            }
        });
        http1::Builder::new()
            .header_read_timeout(None)
            // The end of input cancels nothing: a client may close its side after its request.
            .half_close(true)
            .max_header_size(HYPER_BYTES)
            .max_buf_size(HYPER_BYTES)
            .serve_connection(TokioIo::new(io), service)
            .await
    }
}

/// How many bytes hyper will read of a body.
fn framing_of(body: &Incoming) -> framing::Body {
    match body.size_hint().exact() {
        Some(bytes) => framing::Body::Exact(bytes),
        None => framing::Body::CHUNKED,
    }
}

/// `response` as bytes, for a head that hyper never sees. Its body is whole.
fn bytes_of(response: Response) -> Vec<u8> {
    let (head, body) = response.into_parts();
    let body = body.collect().now_or_never().and_then(Result::ok).map(Collected::to_bytes).unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {}\r\nconnection: close\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    bytes.extend(&body);
    bytes
}

/// Returns once `phase` is [`Phase::Stopping`] or its sender is gone.
pub(super) async fn stop(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|&phase| phase == Phase::Stopping).await;
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http::StatusCode;

    use super::*;

    #[test]
    fn a_refusal_is_a_whole_answer() {
        let refusal = (StatusCode::SERVICE_UNAVAILABLE, [("x", "y")], "Not now.").into_response();
        let text = String::from_utf8(bytes_of(refusal)).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n"), "{text}");
        assert!(text.ends_with("x: y\r\ncontent-length: 8\r\n\r\nNot now."), "{text}");
    }
}
