//! A connection that ends when its client takes too long: hyper limits how long a connection may rest, this limits
//! how long a head may trickle in and an answer may take to be read.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::ServerLimits;

/// A client must read this many bytes of an answer in each [`ServerLimits::write`], or the connection ends.
pub(super) const LEAST_PROGRESS: usize = 4096;

/// Where a connection stands between two requests, shared by its two ends: the bytes below and the service above.
pub(super) struct Exchange {
    limits: ServerLimits,
    stage: Mutex<Stage>,
}

enum Stage {
    /// Waiting for the first byte of a head; for the first on a connection only until the given time.
    Resting { until: Option<Instant> },
    /// The head has begun and must be whole by the given time.
    Head { until: Instant },
    /// The service has the request. Its own time limits apply.
    Request,
}

impl Exchange {
    pub(super) fn new(limits: ServerLimits) -> Self {
        Self { limits, stage: Mutex::new(Stage::Resting { until: Some(Instant::now() + limits.head) }) }
    }

    /// The head is whole.
    pub(super) fn request_began(&self) {
        self.set(Stage::Request);
    }

    /// The answer was handed over.
    pub(super) fn request_ended(&self) {
        self.set(Stage::Resting { until: None });
    }

    /// Grants a client that has not begun a request no more than `time` to do so.
    pub(super) fn shorten_wait(&self, time: Duration) {
        let mut stage = self.stage.lock().expect("no holder panics");
        if let Stage::Resting { until } = &mut *stage {
            let latest = Instant::now() + time;
            *until = Some(until.map_or(latest, |until| until.min(latest)));
        }
    }

    /// Bytes have arrived.
    fn received(&self) {
        let mut stage = self.stage.lock().expect("no holder panics");
        if let Stage::Resting { .. } = *stage {
            *stage = Stage::Head { until: Instant::now() + self.limits.head };
        }
    }

    /// When the client's time to send is over.
    fn read_deadline(&self) -> Option<Instant> {
        match *self.stage.lock().expect("no holder panics") {
            Stage::Resting { until } => until,
            Stage::Head { until } => Some(until),
            Stage::Request => None,
        }
    }

    fn set(&self, next: Stage) {
        *self.stage.lock().expect("no holder panics") = next;
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
}

impl<S> TimedIo<S> {
    pub(super) fn new(stream: S, exchange: Arc<Exchange>) -> Self {
        Self { stream, exchange, reading: Timer::default(), writing: Timer::default(), written: 0 }
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
                    self.written = 0;
                    self.writing = Timer::default();
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(cx, buf) {
            if buf.filled().len() > before {
                this.exchange.received();
                // An answer that was read whole owes no more progress.
                this.writing = Timer::default();
            }
            return Poll::Ready(read);
        }
        let deadline = this.exchange.read_deadline();
        if this.reading.has_passed(deadline, cx) { Poll::Ready(Err(too_slow())) } else { Poll::Pending }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
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

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
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
