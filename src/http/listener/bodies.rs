//! The bodies of requests, as hyper reads them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Closing a connection with unread bytes resets it, and the reset may overtake the answer.
const MAX_DROPPED_BYTES: usize = 4 * 1024 * 1024;

const DROPPING_TIMEOUT: Duration = Duration::from_secs(2);

/// Its bytes count until the request is answered. [`io::ErrorKind::QuotaExceeded`] means that all bodies together are
/// too large.
pub(super) struct CountedBody {
    /// `None` once it is being dropped.
    body: Option<Incoming>,
    /// The client waits for `100 Continue`, so there is nothing to drop if the body is never read.
    is_expected: bool,
    received: Arc<Received>,
}

pub(super) struct Received {
    all: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
    is_whole: AtomicBool,
}

impl Received {
    /// Read to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Relaxed)
    }

    fn hold(&self, bytes: usize) -> io::Result<()> {
        let bytes = u32::try_from(bytes).map_err(|_| io::ErrorKind::QuotaExceeded)?;
        let more = Arc::clone(&self.all).try_acquire_many_owned(bytes).map_err(|_| io::ErrorKind::QuotaExceeded)?;
        match &mut *self.held.lock() {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

impl CountedBody {
    pub(super) fn new(headers: &HeaderMap, body: Incoming, all: Arc<Semaphore>) -> (Self, Arc<Received>) {
        let received = Received { all, held: Mutex::default(), is_whole: AtomicBool::new(false) };
        let received = Arc::new(received);
        let is_expected = headers.contains_key(EXPECT);
        (Self { body: Some(body), is_expected, received: Arc::clone(&received) }, received)
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        this.is_expected = false;
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            this.received.hold(frame.data_ref().map_or(0, Bytes::len))?;
        }
        if frame.is_none() || body.is_end_stream() {
            this.received.is_whole.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|_| !self.is_expected && !self.received.is_whole()) else { return };
        tokio::spawn(timeout(DROPPING_TIMEOUT, drop_rest(body)));
    }
}

/// Within bounds, until the client stops.
async fn drop_rest(mut body: Incoming) {
    let mut dropped = 0;
    while let Some(Ok(frame)) = body.frame().await {
        dropped += frame.data_ref().map_or(0, Bytes::len);
        if dropped > MAX_DROPPED_BYTES {
            return;
        }
    }
}
