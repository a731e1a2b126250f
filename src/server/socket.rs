//! What the operating system may buffer of a connection. It is memory of this process's control group like any other.

use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;

/// Bytes of an answer that the kernel takes before the client has acknowledged them; it doubles this for its own needs.
/// On a line with a round trip of 100 ms it is 640 KB a second.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes of requests that the kernel takes before we read them, doubled likewise. They are in no budget, so they are few:
/// ten thousand clients that send more than we read hold 160 to 320 MB. A body of 128 KB takes four to eight round trips.
const RECEIVE_BUFFER_BYTES: usize = 16 * 1024;

/// Once fewer than half as many bytes have still to be sent, the kernel says that a connection can be written to.
const UNSENT_BYTES: u32 = 8 * 1024;

/// Bounds the buffers of every connection that `listener` accepts: they inherit its options.
pub(super) fn bound_buffers(listener: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(listener);
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    Ok(())
}

/// What a connection runs over.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Returns once nearly all that was written is on its way. Until then the kernel holds it for the client.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Lets the kernel drop what it still holds when this is closed, instead of keeping it for a client that does not
    /// read.
    fn forget_unsent(&mut self);
}

impl Transport for TcpStream {
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            // Tokio believes that it can be written to until a write has failed, so the kernel is asked.
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
        // It fails where the connection has ended already.
        let _ = self.set_zero_linger();
    }
}

/// Whether the kernel would take more, or has no use for it.
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
