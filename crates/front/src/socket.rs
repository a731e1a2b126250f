//! Bounds how much of a connection the operating system buffers. These buffers count as memory of this process's control
//! group.

use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

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

/// Bounds the buffers of every connection that `listener` accepts. Connections inherit the listener's options.
pub(super) fn bound_buffers(listener: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(listener);
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    Ok(())
}

/// The byte stream below a connection.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Returns once the kernel has sent nearly all that was written. Until then the kernel holds the bytes for the
    /// client.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Lets the kernel drop unsent bytes when this stream is closed, instead of keeping them for a client that does not
    /// read.
    fn forget_unsent(&mut self);
}

impl Transport for TcpStream {
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
    fn poll_sent(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn forget_unsent(&mut self) {}
}
