//! Starts the listeners, and tells the operator where they are.

use std::io::{self, Write};
use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};

use crate::telemetry::metrics::COMMIT;
use handbill_pages::values::origin::Origin;

/// Each connection that waits to be accepted may hold 32 KB in the kernel. If the queue is full, a client tries again a second later.
const BACKLOG: u32 = 1024;

/// Of an answer until it is confirmed, and of a request until it is read. The kernel doubles both, as memory of the
/// control group.
const KERNEL_BYTES: u32 = 16 * 1024;

#[derive(Debug, Error)]
#[error("cannot listen on {address} ({reason}): free it, or choose another with {option}")]
pub struct ListenError {
    address: SocketAddr,
    option: &'static str,
    reason: io::Error,
}

/// Also returns the actual address: port 0 takes a free one.
pub fn listen(address: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), ListenError> {
    let refused = |reason| ListenError { address, option, reason };
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A process that has just ended must not block the next one.
        socket.set_reuseaddr(true)?;
        // Connections inherit these.
        socket.set_send_buffer_size(KERNEL_BYTES)?;
        socket.set_recv_buffer_size(KERNEL_BYTES)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let listener = bind().map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// In the log, and on standard output with a way to publish.
pub fn announce(base_url: &Origin, address: SocketAddr, admin: SocketAddr, pages: &str, connections: usize) {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), COMMIT);
    tracing::info!(version, commit, listen = %address, admin_listen = %admin, %base_url, pages, connections, "started");
    let text = format!(
        "Handbill {version} listens on http://{address} and gives out addresses at {base_url}
Operators: http://{admin}/metrics, /livez, /readyz
Data:      {pages}
Publish:   curl {base_url}/api/pages -H 'Content-Type: application/json' -d '{{\"title\": \"Hello, world\", \"content\": \"A *first* page.\"}}'
",
    );
    // Serving continues even if standard output is closed.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
