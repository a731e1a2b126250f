//! The bodies of requests and answers between hyper and the service.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::conn_state::ConnState;
use super::timer::Timer;

/// Bytes of an answer that hyper gets in one piece.
const PIECE_BYTES: usize = 64 * 1024;

/// A request's body. This body charges the budget for bytes that arrive, reports when the service has read it to the
/// end, and fails if the client is too slow.
///
/// The error is [`io::ErrorKind::TimedOut`] if the client took too long and [`io::ErrorKind::QuotaExceeded`] if the
/// budget has no room for more of the body.
pub(super) struct RequestBody {
    body: Incoming,
    conn: Arc<ConnState>,
    timer: Timer,
    /// When bytes last arrived.
    last: Option<Instant>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, conn: Arc<ConnState>) -> Self {
        Self { body, conn, timer: Timer::default(), last: None }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            let is_over = this.timer.has_passed(this.conn.body_deadline(this.last), cx);
            return if is_over { Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into()))) } else { Poll::Pending };
        };
        let bytes = frame.as_ref().and_then(|frame| Some(frame.as_ref().ok()?.data_ref()?.len()));
        if let Some(bytes) = bytes {
            this.last = Some(Instant::now());
            if this.conn.charge_body(bytes).is_err() {
                return Poll::Ready(Some(Err(io::ErrorKind::QuotaExceeded.into())));
            }
        }
        if frame.is_none() || this.body.is_end_stream() {
            this.conn.request_was_read();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body, cut into pieces so that hyper takes only as many as fit its buffer. This body reports when hyper
/// has all pieces.
pub(super) struct AnswerBody {
    body: Body,
    conn: Arc<ConnState>,
    rest: Bytes,
}

impl AnswerBody {
    pub(super) fn new(body: Body, conn: Arc<ConnState>) -> Self {
        Self { body, conn, rest: Bytes::new() }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.conn.handed_over();
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let upper = hint.upper();
        hint.set_lower(hint.lower() + rest);
        if let Some(upper) = upper {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
