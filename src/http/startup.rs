//! The start of the listeners, and the lines that it prints for the operator.

use std::io::{self, Write};
use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};

use crate::telemetry::metrics::COMMIT;
use handbill_pages::values::origin::Origin;

/// Connections that the operating system queues until they are accepted, or as many as it allows (`net.core.somaxconn`,
/// 4096). When the queue is full, the operating system drops a client's first packet, and the client tries again a
/// second later.
const BACKLOG: u32 = 4096;

/// Bytes that the operating system keeps of an answer until the client has confirmed them, and of a request until it is
/// read. It doubles both for its own needs, and they count as memory of the process's control group.
const KERNEL_BYTES: u32 = 16 * 1024;

/// A listener could not be made.
#[derive(Debug, Error)]
#[error("cannot listen on {address} ({reason}): free it, or choose another with {option}")]
pub struct ListenError {
    address: SocketAddr,
    option: &'static str,
    reason: io::Error,
}

/// Listens on `address`, which `option` named. Returns the actual address too: port 0 is replaced by a free one.
pub fn listen(address: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), ListenError> {
    let refused = |reason| ListenError { address, option, reason };
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A process that has just ended must not stop the next from starting.
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

/// Says in the log what has started and where everything is, and prints it on standard output with a way to publish. `pages` is
/// where the pages are kept, `connections` how many are open at most.
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
    // Serving goes on even if standard output is closed.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
