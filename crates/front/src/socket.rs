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

/// Bytes of an answer that the kernel accepts before the client has acknowledged them. The kernel doubles this for its
/// own needs. On a line with a round trip of 100 ms this limit allows 640 KB a second.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

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
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
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
    /// Returns once the kernel has sent nearly all that was written, and if it `must_arrive`, once the client has
    /// acknowledged nearly all of it. Until then the kernel holds the bytes for the client.
    fn poll_sent(&mut self, must_arrive: bool, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Lets the kernel drop unsent bytes when this stream is closed, instead of keeping them for a client that does not
    /// read.
    fn forget_unsent(&mut self);
}

impl Transport for TcpStream {
    fn poll_sent(&mut self, must_arrive: bool, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With the smallest buffer there is, the kernel reports a connection as writable only once less than 3 KB wait to be
        // acknowledged. Setting the option fails if the connection has ended already.
        if must_arrive {
            let _ = SockRef::from(&*self).set_send_buffer_size(0);
        }
        let sent = ready!(poll_room(self, cx));
        if must_arrive {
            let _ = SockRef::from(&*self).set_send_buffer_size(SEND_BUFFER_BYTES);
        }
        Poll::Ready(sent)
    }

    fn forget_unsent(&mut self) {
        // Setting this option fails if the connection has ended already.
        let _ = self.set_zero_linger();
    }
}

/// Waits until the kernel would accept more bytes of `stream`.
fn poll_room(stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        // Tokio reports a stream as writable until a write fails, so the kernel is asked.
        let asked = stream.try_io(Interest::WRITABLE, || {
            if is_writable(stream)? { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        match asked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(stream.poll_write_ready(cx))?,
            sent => return Poll::Ready(sent),
        }
    }
}

/// Whether the kernel would accept more bytes, or the connection is closed.
fn is_writable(stream: &TcpStream) -> io::Result<bool> {
    let mut asked = [PollFd::new(stream, PollFlags::OUT)];
    Ok(poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

#[cfg(test)]
impl Transport for tokio::io::DuplexStream {
    fn poll_sent(&mut self, _: bool, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn forget_unsent(&mut self) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;

    use socket2::SockFilter;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::task::spawn_blocking;

    use super::*;

    #[tokio::test]
    async fn bytes_have_arrived_only_once_the_client_has_acknowledged_them() {
        const BYTES: usize = 60_000;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        bound_buffers(&listener).unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = spawn_blocking(move || std::net::TcpStream::connect(address).unwrap());
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut client = connecting.await.unwrap();
        SockRef::from(&client).set_recv_buffer_size(1024 * 1024).unwrap();
        // From here on the client drops everything that arrives, so it acknowledges nothing.
        SockRef::from(&client).attach_filter(&[SockFilter::new(6, 0, 0, 0)]).unwrap();

        stream.write_all(&[b'x'; BYTES]).await.unwrap();
        poll_fn(|cx| stream.poll_sent(false, cx)).await.unwrap();
        let mut arriving = Box::pin(poll_fn(|cx| stream.poll_sent(true, cx)));
        tokio::select! {
            biased;
            _ = &mut arriving => panic!("nobody has acknowledged it"),
            () = tokio::task::yield_now() => {}
        }

        SockRef::from(&client).detach_filter().unwrap();
        let reading = spawn_blocking(move || client.read_exact(&mut [0; BYTES]));
        arriving.await.unwrap();
        reading.await.unwrap().unwrap();
        assert_eq!(SockRef::from(&stream).send_buffer_size().unwrap(), 2 * SEND_BUFFER_BYTES);
    }
}
