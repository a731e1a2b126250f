//! The public listener's start: its address, its limits, its instruments, and what it tells the operator.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};

use super::error::StartError;
use crate::config::{Budgets, HttpSettings, Memory};
use crate::server::{BACKLOG, BudgetMetrics, ConnectionMetrics, ServerLimits, ServerMetrics};
use crate::telemetry::labels::{BudgetLabels, CutLabels};
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::origin::Origin;

/// The part of the connections that one client may have: one of four, since an address may be that of many people.
const SHARE_OF_A_CLIENT: usize = 4;

/// Longest that a stop waits for a client that makes no progress.
const MAX_STALL: Duration = Duration::from_hours(24);

/// Listens on `address`, which `option` named. Returns the actual address too: port 0 is replaced by a free one.
pub(super) fn listen(address: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |reason| StartError::Listen { address, option, reason };
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A process that has just ended must not stop the next from starting.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let listener = bind().map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// The limits of the public listener within `budgets`, if there are file descriptors for `room` connections. One client may
/// have a quarter of the connections that there are.
pub(super) fn server_limits(http: &HttpSettings, budgets: &Budgets, room: usize) -> ServerLimits {
    let connections = room.min(http.max_connections as usize).min(budgets.connections);
    ServerLimits {
        connections,
        connections_per_client: connections.div_ceil(SHARE_OF_A_CLIENT),
        receiving: budgets.requests,
        sending: budgets.answers,
        // An idle client must not decide how long a stop takes. The upper bound keeps sums of times in range.
        stalled_at_stop: (http.drain_timeout / 3).min(MAX_STALL),
        ..ServerLimits::PUBLIC
    }
}

/// The instruments of the public listener.
pub(super) fn server_metrics(metrics: &Metrics) -> ServerMetrics {
    let cut = |reason| metrics.connections_cut.get_or_create(&CutLabels { reason }).clone();
    let budget = |budget, reason| {
        let labels = BudgetLabels { budget };
        BudgetMetrics {
            held: metrics.budget_held.get_or_create(&labels).clone(),
            limit: metrics.budget_limit.get_or_create(&labels).clone(),
            refused: metrics.budget_refusals.get_or_create(&labels).clone(),
            evicted: cut(reason),
        }
    };
    ServerMetrics {
        open: metrics.connections.clone(),
        connections: ConnectionMetrics {
            over_client_limit: cut("client_limit"),
            full: cut("full"),
            resting: cut("resting"),
            slow: cut("slow"),
        },
        receiving: budget("receive", "receive_budget"),
        sending: budget("send", "send_budget"),
    }
}

/// Prints on standard output where everything is, how much memory there is, and how to publish. `pages` is where the pages
/// are kept.
pub(super) fn announce(base_url: &Origin, address: SocketAddr, admin: SocketAddr, pages: &str, memory: &Memory) {
    let text = format!(
        "Handbill {version} listens on http://{address} and gives out addresses at {base_url}
Operators: http://{admin}/metrics, /livez, /readyz
Data:      {pages}
Memory:    {memory}
Publish:   curl {base_url}/api/pages -H 'Content-Type: application/json' -d '{{\"title\": \"Hello, world\", \"content\": \"A *first* page.\"}}'
",
        version = env!("CARGO_PKG_VERSION"),
    );
    // Serving goes on even if standard output is closed.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        http: HttpSettings,
    }

    /// The connections with these options, in all and of one client.
    fn connections(options: &[&str], memory: u64, room: usize) -> (usize, usize) {
        let line = CommandLine::try_parse_from([&["handbill"][..], options].concat()).unwrap();
        let limits = server_limits(&line.http, &Budgets::of(memory), room);
        (limits.connections, limits.connections_per_client)
    }

    #[test]
    fn a_client_has_a_quarter_of_the_connections_that_there_are() {
        for (options, room, limits) in [
            (&[][..], usize::MAX, (10_000, 2500)),
            (&[], 4000, (4000, 1000)),
            (&[], 1, (1, 1)),
            (&["--max-connections=50"], 4000, (50, 13)),
        ] {
            assert_eq!(connections(options, 1 << 30, room), limits, "{options:?} {room}");
        }
    }

    #[test]
    fn memory_bounds_the_number_of_connections_whatever_the_setting() {
        for options in [&[][..], &["--max-connections=1000000"]] {
            assert_eq!(connections(options, 256 << 20, usize::MAX), (4096, 1024), "{options:?}");
            assert_eq!(connections(options, 128 << 20, usize::MAX), (2048, 512), "{options:?}");
        }
        assert_eq!(connections(&["--max-connections=1000000"], 64 << 30, usize::MAX), (1_000_000, 250_000));
    }
}
