//! A connection that ends when its client takes too long: to begin a request, to send its head, to read an answer.
//!
//! Hyper's own limit for heads is not used, because it counts resting and sending as one: a request that begins at the
//! end of a long rest would be cut.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::ServerLimits;

/// A client must read this many bytes of an answer in each [`ServerLimits::write`], or the connection ends. With 30 s
/// that is 17 kbit/s: less than any line that is still in use, and enough to end a client that only wants to hold on.
const LEAST_PROGRESS: usize = 64 * 1024;

/// How much of a request that was answered unread is read and dropped before the connection is closed. Closing with
/// bytes unread resets it, and a reset may overtake the answer.
const DROPPED_BYTES: usize = 4 * 1024 * 1024;

/// How long that may take.
const DROPPING_TIME: Duration = Duration::from_secs(2);

/// Where a connection stands, shared by its two ends: the bytes below and the service above.
pub(super) struct Exchange {
    limits: ServerLimits,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    /// No request has begun yet.
    is_fresh: bool,
    /// Part of the request's body is still to be read.
    has_unread: bool,
    /// How long to rest instead of [`ServerLimits::idle`], once no further request is wanted.
    last_rest: Option<Duration>,
}

enum Stage {
    /// Waiting for the first byte of a head.
    Resting { until: Instant },
    /// The head has begun and must be whole by the given time.
    Head { until: Instant },
    /// The service has the request. Its own time limits apply.
    Request,
    /// The answer was handed over, and not all of it may have been sent.
    Answer,
}

impl Exchange {
    pub(super) fn new(limits: ServerLimits) -> Self {
        let stage = Stage::Resting { until: Instant::now() + limits.head };
        Self { limits, state: Mutex::new(State { stage, is_fresh: true, has_unread: false, last_rest: None }) }
    }

    /// The head is whole; whether a body follows it.
    pub(super) fn request_began(&self, has_body: bool) {
        let mut state = self.lock();
        state.stage = Stage::Request;
        state.is_fresh = false;
        state.has_unread = has_body;
    }

    /// The request's body was read to its end.
    pub(super) fn request_was_read(&self) {
        self.lock().has_unread = false;
    }

    /// The answer was handed over.
    pub(super) fn request_ended(&self) {
        self.lock().stage = Stage::Answer;
    }

    /// Ends the wait for a request: `first` from now on a connection that had none, `next` from now on any other.
    pub(super) fn finish(&self, first: Duration, next: Duration) {
        let mut state = self.lock();
        state.last_rest = Some(next);
        let latest = Instant::now() + if state.is_fresh { first } else { next };
        if let Stage::Resting { until } = &mut state.stage {
            *until = latest.min(*until);
        }
    }

    /// Bytes have arrived.
    fn received(&self) {
        let mut state = self.lock();
        if let Stage::Resting { .. } = state.stage {
            state.stage = Stage::Head { until: Instant::now() + self.limits.head };
        }
    }

    /// All bytes were sent. If that ends an answer, says how long the connection may rest.
    fn flushed(&self) -> Option<Instant> {
        let mut state = self.lock();
        let Stage::Answer = state.stage else { return None };
        let until = Instant::now() + state.last_rest.unwrap_or(self.limits.idle);
        state.stage = Stage::Resting { until };
        Some(until)
    }

    /// When the client's time to send is over.
    fn read_deadline(&self) -> Option<Instant> {
        match self.lock().stage {
            Stage::Resting { until } | Stage::Head { until } => Some(until),
            Stage::Request | Stage::Answer => None,
        }
    }

    /// Whether the client may still be sending what nobody will read: the rest of a body, or of a head that is no head.
    fn has_unread(&self) -> bool {
        let state = self.lock();
        state.has_unread || matches!(state.stage, Stage::Head { .. })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

/// A stream with the time limits of an [`Exchange`].
pub(super) struct TimedIo<S> {
    stream: S,
    exchange: Arc<Exchange>,
    reading: Timer,
    writing: Timer,
    /// Bytes taken since `writing` was set.
    written: usize,
    /// Set when nothing more will be sent.
    dropping: Option<Dropping>,
}

/// What is left of reading and dropping.
struct Dropping {
    until: Instant,
    bytes: usize,
}

impl<S> TimedIo<S> {
    pub(super) fn new(stream: S, exchange: Arc<Exchange>) -> Self {
        let (reading, writing) = (Timer::default(), Timer::default());
        Self { stream, exchange, reading, writing, written: 0, dropping: None }
    }

    /// Turns waiting for the client to read into an error once it has made too little progress for too long.
    fn limit_write(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => {
                let until = self.writing.until.unwrap_or_else(|| Instant::now() + self.exchange.limits.write);
                if self.writing.has_passed(Some(until), cx) { Poll::Ready(Err(too_slow())) } else { Poll::Pending }
            }
            Poll::Ready(Ok(bytes)) => {
                self.written += bytes;
                if self.written >= LEAST_PROGRESS {
                    self.owe_nothing();
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }

    fn owe_nothing(&mut self) {
        self.written = 0;
        self.writing = Timer::default();
    }
}

impl<S: AsyncRead + Unpin> TimedIo<S> {
    /// Reads and drops what the client still sends, within bounds, until it sees that nobody listens.
    fn poll_drop_unread(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let new = || Dropping { until: Instant::now() + DROPPING_TIME, bytes: 0 };
        let dropping = self.dropping.get_or_insert_with(new);
        let mut space = [MaybeUninit::uninit(); 8192];
        while dropping.bytes < DROPPED_BYTES {
            let mut buf = ReadBuf::uninit(&mut space);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => dropping.bytes += buf.filled().len(),
                Poll::Ready(_) => break,
                Poll::Pending if self.reading.has_passed(Some(dropping.until), cx) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(cx, buf) {
            if buf.filled().len() > before {
                this.exchange.received();
            }
            return Poll::Ready(read);
        }
        let deadline = this.exchange.read_deadline();
        if this.reading.has_passed(deadline, cx) { Poll::Ready(Err(too_slow())) } else { Poll::Pending }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.limit_write(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.limit_write(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Hyper flushes when it has written all that it has.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        this.owe_nothing();
        let rest = this.exchange.flushed();
        // Hyper may not try to read until something wakes it.
        if rest.is_some() && this.reading.has_passed(rest, cx) {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.dropping.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if this.exchange.has_unread() {
            ready!(this.poll_drop_unread(cx));
        }
        Poll::Ready(Ok(()))
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client took too long")
}

/// A deadline that wakes its task.
#[derive(Default)]
struct Timer {
    until: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Whether `until` has passed; if not, wakes the task of `cx` when it does.
    fn has_passed(&mut self, until: Option<Instant>, cx: &mut Context<'_>) -> bool {
        if self.until != until {
            self.until = until;
            self.sleep = until.map(|until| Box::pin(sleep_until(until)));
        }
        self.sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LIMITS: ServerLimits = ServerLimits {
        connections: 1,
        head: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
    };

    #[tokio::test(start_paused = true)]
    async fn a_head_that_begins_at_the_end_of_a_long_rest_has_its_own_time() {
        let (mut client, server) = duplex(64);
        let exchange = Arc::new(Exchange::new(LIMITS));
        let mut server = TimedIo::new(server, Arc::clone(&exchange));
        exchange.request_began(false);
        exchange.request_ended();
        server.flush().await.unwrap();
        let mut byte = [0];

        tokio::time::advance(Duration::from_secs(74)).await;
        client.write_all(b"G").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        tokio::time::advance(Duration::from_secs(9)).await;
        client.write_all(b"E").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();

        let began = Instant::now();
        assert_eq!(server.read_exact(&mut byte).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 1, "what comes meanwhile does not prolong it");
    }

    #[tokio::test(start_paused = true)]
    async fn reading_the_least_in_each_interval_is_enough_and_less_is_not() {
        let (mut client, server) = duplex(1);
        let mut server = TimedIo::new(server, Arc::new(Exchange::new(LIMITS)));
        let writing = tokio::spawn(async move { server.write_all(&vec![0; 3 * LEAST_PROGRESS]).await });
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(29)).await;
            client.read_exact(&mut vec![0; LEAST_PROGRESS]).await.unwrap();
        }
        let began = Instant::now();
        client.read_exact(&mut vec![0; LEAST_PROGRESS / 2]).await.unwrap();
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((29..=30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}
