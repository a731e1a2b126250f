//! The bodies of requests as hyper reads them, and the memory of large answers until their clients have read them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::{collections::HashMap, collections::hash_map::Entry, io, mem, pin::Pin, time::Duration};

use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, header::EXPECT};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::super::kept_body::Chunks;
use super::slots::{BodyWait, ConnectionState};

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
    /// May give way while the body is awaited.
    connection: Arc<ConnectionState>,
    awaited: Option<BodyWait>,
    is_awaited: bool,
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
    pub(super) fn new(
        headers: &HeaderMap,
        body: Incoming,
        all: Arc<Semaphore>,
        connection: Arc<ConnectionState>,
    ) -> (Self, Arc<Received>) {
        let received = Received { all, held: Mutex::default(), is_whole: AtomicBool::new(false) };
        let received = Arc::new(received);
        let is_expected = headers.contains_key(EXPECT);
        let of_answer = Arc::clone(&received);
        (Self { body: Some(body), is_expected, received, connection, awaited: None, is_awaited: false }, of_answer)
    }

    /// Returns `false` if the connection is ending.
    fn end_wait(&mut self) -> bool {
        let wait = self.awaited.filter(|_| mem::take(&mut self.is_awaited));
        wait.is_none_or(|wait| self.connection.end_body_wait(wait))
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let is_open = this.end_wait();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        this.is_expected = false;
        if !is_open {
            // Nothing is answered any more.
            return Poll::Pending;
        }
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
            this.awaited = Some(this.connection.wait_for_body(this.awaited));
            this.is_awaited = true;
            return Poll::Pending;
        };
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
        self.end_wait();
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

/// Some fifty of the largest answers, or a thousand slow readers of one page.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// What the system keeps of an answer for a reader who does not read: 28 KB with Linux's default buffers.
const SOCKET_BYTES: u32 = 32 * 1024;

/// Bytes that several answers share, since the page cache has them, count once. Clones count together.
#[derive(Clone, Debug)]
pub struct LargeAnswers {
    room: Arc<Semaphore>,
    held: Arc<Mutex<HeldBytes>>,
}

/// By place in memory and length.
type HeldBytes = HashMap<(usize, usize), Weak<LargeBytes>>;

#[derive(Debug)]
struct LargeBytes {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
    all: Arc<Mutex<HeldBytes>>,
}

impl Drop for LargeBytes {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // Another answer may have counted the bytes again.
        if let Entry::Occupied(entry) = all.entry(place(&self.bytes))
            && entry.get().strong_count() == 0
        {
            entry.remove();
        }
    }
}

fn place(bytes: &Bytes) -> (usize, usize) {
    (bytes.as_ptr().addr(), bytes.len())
}

/// One answer that is being sent.
struct Held {
    counted: Arc<LargeBytes>,
    _socket: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.counted.bytes
    }
}

impl Default for LargeAnswers {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_ANSWER_BYTES)), held: Arc::default() }
    }
}

impl LargeAnswers {
    /// Counts the bytes of `response` until the last answer with them is sent. Without room, returns the fields of what is dropped.
    pub fn admit(&self, response: Response) -> Result<Response, HeaderMap> {
        if response.body().size_hint().lower() <= SMALL_ANSWER_BYTES {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        match self.hold_all(body) {
            Some(chunks) => Ok(Response::from_parts(head, Chunks::body(chunks))),
            None => Err(head.headers),
        }
    }

    fn hold_all(&self, mut body: axum::body::Body) -> Option<Vec<Bytes>> {
        let mut chunks = Vec::new();
        // Every body of the service is whole, so this does not wait.
        while let Some(frame) = body.frame().now_or_never()? {
            let chunk = frame.ok()?.into_data().ok()?;
            let is_large = chunk.len() as u64 > SMALL_ANSWER_BYTES;
            // Hyper drops the bytes when it has sent them.
            chunks.push(if is_large { Bytes::from_owner(self.hold(chunk)?) } else { chunk });
        }
        Some(chunks)
    }

    fn hold(&self, bytes: Bytes) -> Option<Held> {
        let socket = self.take(SOCKET_BYTES)?;
        let mut held = self.held.lock();
        let place = place(&bytes);
        if let Some(counted) = held.get(&place).and_then(Weak::upgrade) {
            return Some(Held { counted, _socket: socket });
        }
        let permit = self.take(u32::try_from(bytes.len()).ok()?)?;
        let counted = Arc::new(LargeBytes { bytes, _permit: permit, all: Arc::clone(&self.held) });
        held.insert(place, Arc::downgrade(&counted));
        Some(Held { counted, _socket: socket })
    }

    fn take(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_many_owned(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body as AnswerBody;

    use super::*;

    fn answer(bytes: usize) -> Response {
        Response::new(AnswerBody::from(vec![b'x'; bytes]))
    }

    const SOCKET: usize = SOCKET_BYTES as usize;

    #[tokio::test]
    async fn only_large_answers_count_until_their_bytes_are_dropped() {
        let all = LargeAnswers::default();
        let first = all.admit(answer(MAX_ANSWER_BYTES - 2 * SOCKET - 20_000)).unwrap();
        let bytes = first.into_body().collect().await.unwrap().to_bytes();
        assert!(all.admit(answer(20_001)).is_err());
        assert!(all.admit(answer(16 * 1024)).is_ok());
        drop(bytes);
        assert!(all.admit(answer(MAX_ANSWER_BYTES - SOCKET)).is_ok());
    }

    #[tokio::test]
    async fn readers_of_shared_bytes_count_them_once_and_each_what_its_socket_holds() {
        let all = LargeAnswers::default();
        let cached = Bytes::from(vec![b'x'; MAX_ANSWER_BYTES - 100 * SOCKET]);
        let answers: Vec<_> =
            (0..100).map_while(|_| all.admit(Response::new(AnswerBody::from(cached.clone()))).ok()).collect();
        assert_eq!(answers.len(), 100);
        assert!(all.admit(Response::new(AnswerBody::from(cached))).is_err());
        assert!(all.admit(answer(20_001)).is_err());
        drop(answers);
        assert!(all.held.lock().is_empty());
        assert!(all.admit(answer(MAX_ANSWER_BYTES - SOCKET)).is_ok());
    }
}
