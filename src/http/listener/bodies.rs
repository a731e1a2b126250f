//! The memory of bodies: of requests as hyper reads them, and of large answers until their clients have read them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body as AnswerBody;
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;
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

/// Smaller bodies are not counted: connections bound their number.
const SMALL_ANSWER_BYTES: u64 = 16 * 1024;

/// Some fifty of the largest answers.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// Clones count together.
#[derive(Clone, Debug)]
pub struct LargeAnswers(Arc<Semaphore>);

#[derive(Debug)]
pub struct Full;

struct Held {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for LargeAnswers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_ANSWER_BYTES)))
    }
}

impl LargeAnswers {
    /// Counts the bytes of `response` until they are sent.
    pub fn admit(&self, response: Response) -> Result<Response, Full> {
        let bytes = response.body().size_hint().lower();
        if bytes <= SMALL_ANSWER_BYTES {
            return Ok(response);
        }
        let bytes = u32::try_from(bytes).map_err(|_| Full)?;
        let permit = Arc::clone(&self.0).try_acquire_many_owned(bytes).map_err(|_| Full)?;
        let (head, body) = response.into_parts();
        // Every body of the service is whole, so this does not wait.
        let bytes = body.collect().now_or_never().and_then(Result::ok).ok_or(Full)?.to_bytes();
        // Hyper drops the bytes when it has sent them.
        Ok(Response::from_parts(head, AnswerBody::from(Bytes::from_owner(Held { bytes, _permit: permit }))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Response {
        Response::new(AnswerBody::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn only_large_answers_count_until_their_bytes_are_dropped() {
        let all = LargeAnswers::default();
        let first = all.admit(answer(MAX_ANSWER_BYTES - 20_000)).unwrap();
        let bytes = first.into_body().collect().await.unwrap().to_bytes();
        assert!(all.admit(answer(20_001)).is_err());
        assert!(all.admit(answer(16 * 1024)).is_ok());
        drop(bytes);
        assert!(all.admit(answer(MAX_ANSWER_BYTES)).is_ok());
    }
}
