//! Bounds how much of a connection the operating system buffers. These buffers count as memory of this process's control
//! group.

use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
#[cfg(target_os = "linux")]
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;

/// Bytes of an answer of several writes that the kernel accepts before the client has acknowledged them. The kernel doubles
/// this for its own needs. On a line with a round trip of 100 ms this limit allows 640 KB a second.
pub(super) const LONG_ANSWER_BYTES: usize = 64 * 1024;

/// The same for a connection at rest and for an answer of one write, which the kernel takes whole. It reports a connection as
/// writable once it holds less than 10.9 KB for it, with what it adds itself, so a short answer need not be waited for.
pub(super) const SHORT_ANSWER_BYTES: usize = 8 * 1024;

/// Bytes that the kernel gets in one write. Each write is bounded because the kernel always accepts a little more than
/// its own limit.
pub(super) const WRITE_BYTES: usize = 32 * 1024;

/// Bytes of requests that the kernel accepts before we read them, also doubled. No budget counts these bytes, so the
/// limit is low: ten thousand clients that send more than we read hold 160 to 320 MB. A body of 128 KB takes four to
/// eight round trips.
const RECEIVE_BUFFER_BYTES: usize = 16 * 1024;

/// The kernel reports a connection as writable once fewer than half of these bytes are unsent.
const UNSENT_BYTES: u32 = 8 * 1024;

/// How long a client may leave bytes unacknowledged before the kernel ends the connection, also after we have closed it.
/// It is as long as a client may take to read an answer ([`super::limits::ServerLimits::write`]).
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);

/// Bounds the buffers of every connection that `listener` accepts. Connections inherit the listener's options.
pub(super) fn bound_buffers(listener: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(listener);
    socket.set_send_buffer_size(SHORT_ANSWER_BYTES)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
        socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT))?;
    }
    Ok(())
}

/// The byte stream below a connection.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Sets how many bytes the kernel accepts before the client has acknowledged them. With 0 these are less than 3 KB.
    fn keep_at_most(&mut self, bytes: usize);

    /// Returns once the kernel has sent nearly all that was written, and would accept more by [`Self::keep_at_most`].
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Lets the kernel drop unsent bytes when this stream is closed, instead of keeping them for a client that does not
    /// read.
    fn forget_unsent(&mut self);
}

impl Transport for TcpStream {
    fn keep_at_most(&mut self, bytes: usize) {
        // Setting this option fails if the connection has ended already.
        let _ = SockRef::from(&*self).set_send_buffer_size(bytes);
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            // Tokio reports a stream as writable until a write fails, so the kernel is asked.
            let asked = self.try_io(Interest::WRITABLE, || {
                if is_writable(self)? { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            });
            match asked {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_write_ready(cx))?,
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn forget_unsent(&mut self) {
        // Setting this option fails if the connection has ended already.
        let _ = self.set_zero_linger();
    }
}

/// Whether the kernel would accept more bytes, or the connection is closed.
fn is_writable(stream: &TcpStream) -> io::Result<bool> {
    let mut asked = [PollFd::new(stream, PollFlags::OUT)];
    Ok(poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

#[cfg(test)]
impl Transport for tokio::io::DuplexStream {
    fn keep_at_most(&mut self, _: usize) {}

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn forget_unsent(&mut self) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;

    use futures_util::FutureExt;
    use socket2::SockFilter;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::task::spawn_blocking;

    use super::*;

    /// A connection whose client drops everything that arrives, so it acknowledges nothing.
    async fn deaf() -> (TcpStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        bound_buffers(&listener).unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = spawn_blocking(move || std::net::TcpStream::connect(address).unwrap());
        let (stream, _) = listener.accept().await.unwrap();
        let client = connecting.await.unwrap();
        SockRef::from(&client).set_recv_buffer_size(1024 * 1024).unwrap();
        SockRef::from(&client).attach_filter(&[SockFilter::new(6, 0, 0, 0)]).unwrap();
        (stream, client)
    }

    /// Whether the kernel has room at once.
    fn has_room(stream: &mut TcpStream) -> bool {
        poll_fn(|cx| stream.poll_room(cx)).now_or_never().is_some()
    }

    #[tokio::test]
    async fn bytes_have_arrived_only_once_the_client_has_acknowledged_them() {
        let (mut stream, mut client) = deaf().await;
        stream.write_all(&[b'x'; 6000]).await.unwrap();
        stream.keep_at_most(0);
        assert!(!has_room(&mut stream), "nobody has acknowledged it");
        let mut arriving = Box::pin(poll_fn(|cx| stream.poll_room(cx)));
        assert!((&mut arriving).now_or_never().is_none());

        SockRef::from(&client).detach_filter().unwrap();
        let reading = spawn_blocking(move || client.read_exact(&mut [0; 6000]));
        arriving.await.unwrap();
        reading.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn one_short_answer_is_not_waited_for_and_a_second_one_is_until_the_first_has_arrived() {
        let (mut stream, _client) = deaf().await;
        stream.write_all(&[b'x'; 6000]).await.unwrap();
        assert!(has_room(&mut stream));
        stream.write_all(&[b'x'; 6000]).await.unwrap();
        assert!(!has_room(&mut stream));
    }

    #[tokio::test]
    async fn a_whole_write_is_taken_beside_a_short_answer_and_more_only_for_a_long_answer() {
        let (mut stream, _client) = deaf().await;
        stream.write_all(&[b'x'; 6000]).await.unwrap();
        assert_eq!(stream.try_write(&vec![b'x'; WRITE_BYTES]).unwrap(), WRITE_BYTES);
        assert_eq!(stream.try_write(b"x").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        stream.keep_at_most(LONG_ANSWER_BYTES);
        stream.writable().await.unwrap();
        assert_eq!(stream.try_write(&vec![b'x'; WRITE_BYTES]).unwrap(), WRITE_BYTES);
    }
}
