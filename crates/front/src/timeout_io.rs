//! A byte stream that ends when its client takes too long to begin a request, to send its head, or to read an answer.
//!
//! Between two requests hyper does not run and its buffers do not exist, so an idle connection holds almost no memory.
//! A head is collected here and passed to hyper when it is complete. Then hyper gets exactly the body that belongs to
//! that head. Once the answer is sent, hyper gets the end of input. Bytes of the next request stay here until the next
//! head begins.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout};

use super::conn_state::ConnState;
use super::framing::{BareLineFeed, ChunksError, begins_a_request, end_of_head};
use super::head_checks::{self, check_head};
use super::socket::{LONG_ANSWER_BYTES, SHORT_ANSWER_BYTES, Transport, WRITE_BYTES};
use super::timer::Timer;
use crate::app::Refusal;
use crate::limits::MAX_HEAD_BYTES;

/// Bytes of an answer that a client must read within each [`super::limits::ServerLimits::write`]; otherwise the
/// connection ends. With 30 s the client must read 17 kbit/s. Any line in use is faster, and a client that only wants
/// to keep its place is slower.
const MIN_WRITE_PROGRESS: usize = 64 * 1024;

/// Size of the buffer on the stack for one read, in bytes. It is one byte less than hyper's own buffer, which doubles
/// when a read fills it.
const READ_BYTES: usize = 8 * 1024 - 1;

/// Slices of memory that the kernel gets in one write: the head of an answer and its first pieces.
const WRITE_SLICES: usize = 8;

/// Bytes of answers after which the kernel is asked how much it keeps for the client. The question is a system call, so
/// small answers share one. Until then it may keep these bytes uncharged, besides those of [`SHORT_ANSWER_BYTES`].
const UNASKED_BYTES: usize = 4 * 1024;

/// Longest head that is collected, in bytes. [`MAX_HEAD_BYTES`] does not count some parts of a head, such as the
/// method, so there is 1 KiB for these.
const MAX_COLLECTED_BYTES: usize = MAX_HEAD_BYTES + 1024;

/// Bytes that are reserved for a head at first. They double as needed.
const FIRST_HEAD_BYTES: usize = 1024;

/// Bytes of an unread request that are read and dropped before the connection is closed. Closing with unread bytes resets
/// the connection, and a reset may overtake the answer.
const DROPPED_BYTES: usize = 4 * 1024 * 1024;

/// How long a client may take to acknowledge the last bytes before the connection is closed. On any line in use they take
/// less, with the bytes that are lost on the way.
const CONFIRMING_TIMEOUT: Duration = Duration::from_secs(2);

/// How long reading and dropping may take. Closing with unread bytes resets the connection, and the reset may overtake
/// the answer.
const DROPPING_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// The client ended the connection, or took too long.
    Ended,
    /// The head is longer than [`MAX_COLLECTED_BYTES`].
    TooLarge,
    NoRoom,
    /// The head must not be served.
    Invalid(Refusal),
}

/// A stream with the time limits and budgets of a [`ConnState`].
pub(super) struct TimeoutIo<S> {
    stream: S,
    conn: Arc<ConnState>,
    /// Bytes that have arrived and that hyper does not have yet.
    ahead: Vec<u8>,
    /// How many bytes of `ahead` were searched for the end of a head.
    searched: usize,
    /// How many bytes of `ahead` hyper may read: the rest of a head.
    given: usize,
    /// Hyper asked for another request and got the end of input.
    was_left: bool,
    reading: Timer,
    writing: Timer,
    /// Set while an answer waits for the client: when the client last made progress in reading.
    waiting_since: Option<Instant>,
    /// Bytes written since `waiting_since`.
    written: usize,
    /// Something was written since the last flush.
    is_dirty: bool,
    /// Bytes that were written since an answer was last complete and the kernel had room.
    unasked: usize,
    /// The answer takes several writes.
    is_long: bool,
}

impl<S: Transport> TimeoutIo<S> {
    pub(super) fn new(stream: S, conn: Arc<ConnState>) -> Self {
        let (reading, writing) = (Timer::default(), Timer::default());
        Self {
            stream,
            conn,
            ahead: Vec::new(),
            searched: 0,
            given: 0,
            was_left: false,
            reading,
            writing,
            waiting_since: None,
            written: 0,
            is_dirty: false,
            unasked: 0,
            is_long: false,
        }
    }

    pub(super) async fn next_head(&mut self) -> Result<(), HeadError> {
        let head = std::future::poll_fn(|cx| self.poll_head(cx)).await;
        // Nobody counts these bytes while the client gets its refusal.
        head.inspect_err(|_| self.ahead = Vec::new())
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HeadError>> {
        loop {
            if !self.ahead.is_empty() {
                self.conn.head_began();
            }
            // Clients may send empty lines between requests (RFC 9112 §2.2).
            let blank = 2 * self.ahead.chunks(2).take_while(|line| line == b"\r\n").count();
            self.ahead.drain(..blank);
            if let Some(&first) = self.ahead.first().filter(|_| self.ahead != b"\r") {
                // Bytes that cannot begin a request are passed to hyper without waiting for more, because hyper answers
                // them.
                let is_request = begins_a_request(first) || first == b'\n';
                let end = if is_request {
                    let end = end_of_head(&self.ahead, self.searched);
                    end.map_err(|BareLineFeed| HeadError::Invalid(head_checks::bare_line_feed()))?
                } else {
                    Some(self.ahead.len())
                };
                self.searched = self.ahead.len();
                if let Some(end) = end.filter(|&end| end <= MAX_COLLECTED_BYTES) {
                    if is_request {
                        check_head(&self.ahead[..end]).map_err(HeadError::Invalid)?;
                    }
                    self.conn.head_is_whole(end).map_err(|_| HeadError::NoRoom)?;
                    (self.given, self.searched, self.was_left) = (end, 0, false);
                    return Poll::Ready(Ok(()));
                }
                if self.searched > MAX_COLLECTED_BYTES {
                    return Poll::Ready(Err(HeadError::TooLarge));
                }
            }
            if self.ahead.is_empty() {
                self.ahead = Vec::new();
            } else {
                // A whole head is charged once, with what hyper makes of it.
                self.conn.charge_head(self.ahead.capacity()).map_err(|_| HeadError::NoRoom)?;
            }
            let mut space = [MaybeUninit::uninit(); READ_BYTES];
            let mut buf = ReadBuf::uninit(&mut space);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => self.collect(buf.filled()),
                Poll::Ready(_) => return Poll::Ready(Err(HeadError::Ended)),
                Poll::Pending if self.reading.has_passed(self.conn.head_deadline(), cx) => {
                    return Poll::Ready(Err(HeadError::Ended));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Keeps `bytes` of a head.
    fn collect(&mut self, bytes: &[u8]) {
        let needed = self.ahead.len() + bytes.len();
        if needed > self.ahead.capacity() {
            self.ahead.reserve_exact(needed.next_power_of_two().max(FIRST_HEAD_BYTES) - self.ahead.len());
        }
        self.ahead.extend_from_slice(bytes);
    }

    /// Whether hyper ended only because the connection is idle, so that another request may follow.
    pub(super) fn may_go_on(&self) -> bool {
        self.was_left
    }

    /// Sends an answer to a head that hyper never saw.
    pub(super) async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = std::future::poll_fn(|cx| Pin::new(&mut *self).poll_write(cx, bytes)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Closes the connection so that the client receives what was sent, as far as possible.
    pub(super) async fn close(&mut self) {
        // Nobody counts the bytes that the kernel keeps for a connection that is gone.
        self.stream.keep_at_most(0);
        let confirmed = timeout(CONFIRMING_TIMEOUT, std::future::poll_fn(|cx| self.stream.poll_room(cx))).await;
        if !matches!(confirmed, Ok(Ok(()))) {
            return self.forget_unsent();
        }
        let shut = std::future::poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await;
        if shut.is_ok() && self.conn.has_unread() {
            let until = Instant::now() + DROPPING_TIMEOUT;
            let mut dropped = 0;
            std::future::poll_fn(|cx| self.poll_drop_unread(cx, until, &mut dropped)).await;
        }
    }

    /// Makes the kernel drop unsent bytes when this connection is dropped.
    pub(super) fn forget_unsent(&mut self) {
        self.stream.forget_unsent();
    }

    /// Reads and drops what the client still sends, within bounds, until it stops.
    fn poll_drop_unread(&mut self, cx: &mut Context<'_>, until: Instant, dropped: &mut usize) -> Poll<()> {
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        while *dropped < DROPPED_BYTES {
            let mut buf = ReadBuf::uninit(&mut space);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => *dropped += buf.filled().len(),
                Poll::Ready(_) => break,
                Poll::Pending if self.reading.has_passed(Some(until), cx) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    fn give_head(&mut self, buf: &mut ReadBuf<'_>) {
        let given = self.given.min(buf.remaining());
        buf.put_slice(&self.ahead[..given]);
        self.ahead.drain(..given);
        self.given -= given;
        if self.given == 0 {
            self.ahead.shrink_to_fit();
        }
    }

    /// Gives hyper the bytes of the body that have arrived.
    fn poll_body(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let at_most = self.conn.with_body(|body| body.at_most()).min(buf.remaining()).min(READ_BYTES);
        if at_most == 0 {
            // The message is complete. Further bytes wait until it is answered.
            return Poll::Pending;
        }
        if !self.ahead.is_empty() {
            let offered = &self.ahead[..at_most.min(self.ahead.len())];
            let taken = self.conn.with_body(|body| body.take(offered)).map_err(invalid_chunks)?;
            buf.put_slice(&self.ahead[..taken]);
            self.ahead.drain(..taken);
            if self.ahead.is_empty() {
                self.ahead = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let mut arrived = ReadBuf::uninit(&mut space[..at_most]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut arrived))?;
        let arrived = arrived.filled();
        let taken = self.conn.with_body(|body| body.take(arrived)).map_err(invalid_chunks)?;
        buf.put_slice(&arrived[..taken]);
        self.ahead.extend_from_slice(&arrived[taken..]);
        Poll::Ready(Ok(()))
    }

    /// Fails once the client has made too little progress in reading for too long.
    fn limit_write<T>(&mut self, wait: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if wait.is_pending() {
            let since = *self.waiting_since.get_or_insert_with(Instant::now);
            if self.writing.has_passed(Some(self.conn.write_deadline(since)), cx) {
                self.stream.forget_unsent();
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly")));
            }
        }
        wait
    }

    fn will_write(&mut self, bytes: usize) {
        if !self.is_long && self.unasked + bytes > WRITE_BYTES {
            self.is_long = true;
            self.stream.keep_at_most(LONG_ANSWER_BYTES);
        }
    }

    fn count_written(&mut self, written: &Poll<io::Result<usize>>) {
        let Poll::Ready(Ok(bytes)) = written else { return };
        self.is_dirty = true;
        self.unasked += bytes;
        self.conn.sent(*bytes);
        self.conn.shared.sent_bytes.inc_by(*bytes as u64);
        self.written += bytes;
        if self.written >= MIN_WRITE_PROGRESS {
            self.reset_write_limit();
        }
    }

    fn reset_write_limit(&mut self) {
        self.written = 0;
        self.waiting_since = None;
        self.writing = Timer::default();
    }
}

fn invalid_chunks(error: ChunksError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<S: Transport> AsyncRead for TimeoutIo<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.given > 0 {
            this.give_head(buf);
        } else if this.conn.is_in_request() {
            return this.poll_body(cx, buf);
        }
        // In all other cases hyper reads the end of its input: after an invalid head, or after the last request before
        // the connection is idle.
        this.was_left = this.conn.is_idle();
        Poll::Ready(Ok(()))
    }
}

impl<S: Transport> AsyncWrite for TimeoutIo<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.conn.is_given() {
            // Hyper answers what is no request without asking the service, which does so afterwards.
            return Poll::Ready(Ok(buf.len()));
        }
        this.will_write(buf.len());
        let written = Pin::new(&mut this.stream).poll_write(cx, &buf[..buf.len().min(WRITE_BYTES)]);
        this.count_written(&written);
        this.limit_write(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let offered = bufs.iter().map(|buf| buf.len()).sum();
        if this.conn.is_given() {
            return Poll::Ready(Ok(offered));
        }
        this.will_write(offered);
        let mut some = [IoSlice::new(&[]); WRITE_SLICES];
        let mut left = WRITE_BYTES;
        let bufs = bufs.iter().filter(|buf| !buf.is_empty());
        for (place, buf) in some.iter_mut().zip(bufs) {
            *place = IoSlice::new(&buf[..buf.len().min(left)]);
            left -= place.len();
        }
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, &some);
        this.count_written(&written);
        this.limit_write(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Hyper flushes when it has written everything.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        if this.is_dirty {
            let is_whole = this.conn.is_handed_over();
            if is_whole && std::mem::take(&mut this.is_long) {
                this.stream.keep_at_most(SHORT_ANSWER_BYTES);
            }
            if this.unasked > UNASKED_BYTES {
                // Bytes that the client has not acknowledged are in the kernel's memory, so the answer stays charged for them.
                let room = this.stream.poll_room(cx);
                ready!(this.limit_write(room, cx))?;
                this.unasked = if is_whole { 0 } else { this.unasked };
            }
            this.is_dirty = false;
        }
        this.reset_write_limit();
        if this.conn.all_sent() {
            // Hyper finds the end of input only when it reads, so its task is woken.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    /// Does nothing: [`TimeoutIo::close`] shuts down after hyper has ended.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;
    use crate::ServerLimits;
    use crate::budgets::{Budget, BudgetMetrics};
    use crate::clients::Client;
    use crate::conn_state::Shared;
    use crate::connections::{ConnectionMetrics, Connections};
    use crate::cut::Cut;
    use crate::framing::Body;

    const LIMITS: ServerLimits = ServerLimits {
        connections: 1,
        connections_per_client: 1,
        head: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
        answer: Duration::from_mins(5),
        stalled_at_stop: Duration::from_secs(5),
        ..ServerLimits::PUBLIC
    };

    fn me() -> Client {
        Client::from(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// A connection, the client's end of it, and its budgets.
    struct Played {
        client: DuplexStream,
        io: TimeoutIo<DuplexStream>,
        conn: Arc<ConnState>,
        receiving: BudgetMetrics,
        sending: BudgetMetrics,
    }

    impl Played {
        fn new(limits: ServerLimits, room: usize) -> Self {
            let (client, stream) = duplex(room);
            let (receiving, sending) = (BudgetMetrics::default(), BudgetMetrics::default());
            let shared = Arc::new(Shared {
                limits,
                receiving: Budget::new(limits.receiving, receiving.clone()),
                sending: Budget::new(limits.sending, sending.clone()),
                sent_bytes: Counter::default(),
            });
            let cut = Arc::new(Cut::default());
            let connections = Connections::new(1, 1, ConnectionMetrics::default());
            let seat = connections.admit(me(), false, &cut).unwrap();
            let conn = Arc::new(ConnState::new(shared, me(), cut, seat));
            Self { client, io: TimeoutIo::new(stream, Arc::clone(&conn)), conn, receiving, sending }
        }

        /// Reads the head of the next request as hyper does, and records that `body` follows.
        async fn request(&mut self, body: Body) -> Vec<u8> {
            self.io.next_head().await.unwrap();
            let mut head = vec![0; self.io.given];
            self.io.read_exact(&mut head).await.unwrap();
            self.conn.request_began(body, me());
            head
        }

        async fn answer(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.conn.answered();
            self.conn.handed_over();
            self.io.write_all(bytes).await?;
            self.io.flush().await
        }
    }

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_head_that_begins_at_the_end_of_a_long_rest_has_its_own_time() {
        let mut played = Played::new(LIMITS, 64);
        played.client.write_all(HEAD).await.unwrap();
        assert_eq!(played.request(Body::NONE).await, HEAD);
        played.answer(b"x").await.unwrap();

        tokio::time::advance(Duration::from_secs(74)).await;
        played.client.write_all(b"G").await.unwrap();
        let began = Instant::now();
        let trickle = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            played.client.write_all(b"E").await.unwrap();
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = played.io.next_head() => ended,
            () = trickle => unreachable!(),
        };
        assert_eq!(
            (ended, began.elapsed().as_secs()),
            (Err(HeadError::Ended), 10),
            "what comes meanwhile does not prolong it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_fuller_the_budget_the_shorter_the_time_for_a_head() {
        let mut played = Played::new(LIMITS, 64);
        let _others =
            played.conn.shared.receiving.take(me(), LIMITS.receiving * 8 / 10, false, &Arc::default()).unwrap();
        played.client.write_all(b"G").await.unwrap();
        let began = Instant::now();
        assert_eq!(played.io.next_head().await, Err(HeadError::Ended));
        assert_eq!(began.elapsed(), LIMITS.head / 4);
    }

    #[tokio::test(start_paused = true)]
    async fn hyper_is_given_one_request_at_a_time_and_then_the_end() {
        let mut played = Played::new(LIMITS, 1024);
        let first = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
        let second = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = b"3\r\nabc\r\n0\r\n\r\n";
        played.client.write_all(&[b"\r\n", &first[..], b"body", second, chunks, HEAD].concat()).await.unwrap();
        let mut rest = Vec::new();

        assert_eq!(played.request(Body::Exact(4)).await, first);
        let mut body = [0; 4];
        played.io.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"body");
        played.answer(b"x").await.unwrap();
        assert_eq!(played.io.read_to_end(&mut rest).await.unwrap(), 0);

        assert_eq!(played.request(Body::CHUNKED).await, second);
        let mut body = vec![0; chunks.len()];
        played.io.read_exact(&mut body).await.unwrap();
        assert_eq!(body, chunks);
        played.answer(b"x").await.unwrap();
        assert_eq!(played.io.read_to_end(&mut rest).await.unwrap(), 0);

        assert_eq!(played.request(Body::NONE).await, HEAD);
    }

    #[tokio::test(start_paused = true)]
    async fn empty_lines_before_a_head_are_skipped_however_they_arrive_and_lf_alone_is_refused() {
        let mut played = Played::new(LIMITS, 1024);
        for piece in [&b"\r"[..], b"\n\r\n\r", b"\n"] {
            played.client.write_all(piece).await.unwrap();
            tokio::select! {
                biased;
                ended = played.io.next_head() => panic!("{ended:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        played.client.write_all(HEAD).await.unwrap();
        assert_eq!(played.request(Body::NONE).await, HEAD);
        played.answer(b"x").await.unwrap();
        played.client.write_all(b"\n").await.unwrap();
        assert_eq!(played.io.next_head().await, Err(HeadError::Invalid(head_checks::bare_line_feed())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_holds_what_it_needs_until_it_is_answered_and_a_rest_holds_nothing() {
        let mut played = Played::new(LIMITS, 64 * 1024);
        let large = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", "x".repeat(30_000).as_bytes()].concat();
        played.client.write_all(&large).await.unwrap();
        tokio::select! {
            biased;
            ended = played.io.next_head() => panic!("{ended:?}"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!((played.receiving.held.get(), played.io.ahead.capacity()), (32 * 1024, 32 * 1024));
        played.client.write_all(b"\r\n\r\n").await.unwrap();
        played.request(Body::NONE).await;
        assert!(played.receiving.held.get() > 60_000, "hyper has a copy");
        assert_eq!(played.io.ahead.capacity(), 0);
        played.conn.may_answer(u64::MAX).unwrap();
        played.conn.charge_answer(100_000).unwrap();
        assert!(played.sending.held.get() > 100_000);
        played.answer(b"x").await.unwrap();
        assert_eq!((played.receiving.held.get(), played.sending.held.get()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_came_with_the_last_request_are_charged_once_it_is_answered() {
        let mut played = Played::new(LIMITS, 64 * 1024);
        let ahead = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", "x".repeat(5_000).as_bytes()].concat();
        played.client.write_all(&[HEAD, &ahead].concat()).await.unwrap();
        played.request(Body::NONE).await;
        played.answer(b"x").await.unwrap();
        assert_eq!(played.receiving.held.get(), 0);
        tokio::select! {
            biased;
            ended = played.io.next_head() => panic!("{ended:?}"),
            () = tokio::task::yield_now() => {}
        }
        assert!(played.receiving.held.get() >= 5_000, "{}", played.receiving.held.get());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_room_for_its_answer_is_counted_once_however_often_room_is_asked_for() {
        let mut played = Played::new(ServerLimits { sending: 100 * 1024, ..LIMITS }, 1024);
        for requests in 1..=2 {
            played.client.write_all(HEAD).await.unwrap();
            played.request(Body::NONE).await;
            // The service asks for room again once it knows the answer.
            played.conn.may_answer(u64::MAX).unwrap();
            assert!(played.conn.charge_answer(100_000).is_err());
            assert!(played.conn.may_answer(u64::MAX).is_err());
            assert_eq!(played.sending.refused.get(), requests);
            played.answer(b"x").await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_holds_what_its_longest_answer_takes_and_a_longer_answer_takes_more() {
        let mut played = Played::new(LIMITS, 1024);
        played.client.write_all(HEAD).await.unwrap();
        played.request(Body::NONE).await;
        played.conn.may_answer(1024).unwrap();
        assert_eq!(played.sending.held.get(), (22 + 1) * 1024);
        played.conn.charge_answer(512).unwrap();
        assert_eq!(played.sending.held.get(), (22 + 1) * 1024);
        played.conn.charge_answer(10 * 1024).unwrap();
        assert_eq!(played.sending.held.get(), (22 + 2 * 10) * 1024);
        played.conn.charge_answer(100 * 1024).unwrap();
        assert_eq!(played.sending.held.get(), (80 + 100) * 1024);
        played.answer(b"x").await.unwrap();
        assert_eq!(played.sending.held.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_shorter_than_it_could_be_gives_the_rest_of_its_room_back() {
        let mut played = Played::new(LIMITS, 1024);
        played.client.write_all(HEAD).await.unwrap();
        played.request(Body::NONE).await;
        played.conn.may_answer(u64::MAX).unwrap();
        assert_eq!(played.sending.held.get(), 80 * 1024);
        played.conn.charge_answer(2 * 1024).unwrap();
        assert_eq!(played.sending.held.get(), (22 + 2 * 2) * 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_body_does_not_come_makes_room_for_the_answer_of_another_client() {
        const HEAD_OF_A_BODY: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
        let mut played = Played::new(ServerLimits { sending: 100 * 1024, ..LIMITS }, 1024);
        played.client.write_all(HEAD_OF_A_BODY).await.unwrap();
        played.request(Body::Exact(9)).await;
        played.conn.may_answer(u64::MAX).unwrap();
        let sending = Arc::clone(&played.conn.shared.sending);
        let other = Client::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
        let another_asks = || sending.take(other, 80 * 1024, false, &Arc::default()).is_ok();
        assert!(!another_asks(), "the body may be on its way");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(another_asks());

        let mut played = Played::new(ServerLimits { sending: 100 * 1024, ..LIMITS }, 1024);
        played.client.write_all(&[HEAD_OF_A_BODY, b"123456789"].concat()).await.unwrap();
        played.request(Body::Exact(9)).await;
        played.conn.may_answer(u64::MAX).unwrap();
        played.conn.request_was_read();
        let sending = Arc::clone(&played.conn.shared.sending);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(sending.take(other, 80 * 1024, false, &Arc::default()).is_err(), "its answer is being made");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_fit_the_budget_or_is_too_large_is_not_gathered() {
        let mut played = Played::new(ServerLimits { receiving: 16 * 1024, ..LIMITS }, 64 * 1024);
        played.client.write_all(&vec![b'x'; 20_000]).await.unwrap();
        assert_eq!(played.io.next_head().await, Err(HeadError::NoRoom));
        let mut played = Played::new(LIMITS, 64 * 1024);
        played.client.write_all(&vec![b'x'; 40_000]).await.unwrap();
        assert_eq!(played.io.next_head().await, Err(HeadError::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_head_without_room_is_dropped_and_its_refusal_reaches_the_client() {
        let mut played = Played::new(ServerLimits { receiving: 16 * 1024, ..LIMITS }, 64 * 1024);
        played.client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert_eq!(played.io.next_head().await, Err(HeadError::NoRoom));
        assert_eq!(played.io.ahead.capacity(), 0);
        played.io.send(b"refused").await.unwrap();
        let mut received = [0; 7];
        let reading = timeout(Duration::from_secs(1), played.client.read_exact(&mut received));
        reading.await.expect("the refusal arrives").unwrap();
        assert_eq!(&received, b"refused");
    }

    #[tokio::test(start_paused = true)]
    async fn reading_the_least_in_each_interval_is_enough_and_less_is_not() {
        let Played { mut client, mut io, conn, .. } = Played::new(LIMITS, 1);
        conn.answered();
        let writing = tokio::spawn(async move { io.write_all(&vec![0; 3 * MIN_WRITE_PROGRESS]).await });
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(29)).await;
            client.read_exact(&mut vec![0; MIN_WRITE_PROGRESS]).await.unwrap();
        }
        let began = Instant::now();
        client.read_exact(&mut vec![0; MIN_WRITE_PROGRESS / 2]).await.unwrap();
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((29..=30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_a_time_in_all_however_steadily_it_is_read() {
        let limits = ServerLimits { answer: Duration::from_secs(100), ..LIMITS };
        let Played { mut client, mut io, conn, .. } = Played::new(limits, 1);
        conn.answered();
        let began = Instant::now();
        let writing = tokio::spawn(async move { io.write_all(&vec![0; 8 * MIN_WRITE_PROGRESS]).await });
        let reading = async {
            loop {
                tokio::time::sleep(Duration::from_secs(20)).await;
                let mut read = vec![0; MIN_WRITE_PROGRESS];
                if client.read_exact(&mut read).await.is_err() {
                    return;
                }
            }
        };
        let ((), written) = tokio::join!(reading, writing);
        assert_eq!(written.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((100..=120).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_waited_for_a_short_time_after_the_stop() {
        let Played { client, mut io, conn, .. } = Played::new(LIMITS, 1);
        conn.answered();
        let stopping = Arc::clone(&conn);
        let writing = async { io.write_all(&[0; 1000]).await };
        let began = Instant::now();
        let stop = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stopping.finish(Duration::ZERO, Duration::ZERO);
            // The task that stops a connection polls it once more.
            tokio::task::yield_now().await;
            std::future::pending::<()>().await;
        };
        let written = tokio::select! {
            written = writing => written,
            () = stop => unreachable!(),
        };
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), Duration::from_secs(6));
        drop(client);
    }
}
