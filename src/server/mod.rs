//! Connections, with what Handbill adds to them: its clients, its settings, its metrics and its errors.

pub mod startup;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use axum::{Json, Router};
use http::request::Parts;
use http::{Request, StatusCode};
use tower::Service;

pub use handbill_front::*;

use crate::api::error::{ApiError, Code};
use crate::api::request::client_addr::TrustedProxies;
use crate::api::types::ErrorBody;
use crate::config::Budgets;
use crate::telemetry::labels::{BudgetLabels, CutLabels};
use crate::telemetry::metrics::Metrics;
use handbill_core::domain;
use handbill_core::domain::client::Peer;

impl Clients for TrustedProxies {
    fn of_peer(&self, address: IpAddr) -> Client {
        charged(address.into())
    }

    fn of_request(&self, peer: SocketAddr, head: &mut Parts) -> Client {
        head.extensions.insert(Peer(peer));
        let client = self.client(head);
        head.extensions.insert(client);
        charged(client)
    }

    /// This machine and the proxies connect for many clients.
    fn is_exempt(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.trusts(address)
    }
}

/// Length of the IPv6 prefix whose clients share memory and connections, in bits. Anybody can get a /48, in which limits
/// see 65 536 clients.
const IPV6_SITE_BITS: u32 = 48;

fn charged(client: domain::client::Client) -> Client {
    Client(match client {
        domain::client::Client::V4(address) => address.into(),
        domain::client::Client::V6Network(network) => {
            Ipv6Addr::from_bits(network.to_bits() & (u128::MAX << (128 - IPV6_SITE_BITS))).into()
        }
    })
}

/// The part of the connections that one client may have: one of four, since an address may be that of many people.
const SHARE_OF_A_CLIENT: usize = 4;

/// Longest that a stop waits for a client that makes no progress.
const MAX_STALL: Duration = Duration::from_hours(24);

/// The limits of the public listener within `budgets`, if there are file descriptors for `room` connections. Memory or
/// descriptors bound the number of connections, whichever allows fewer, and one client may have a quarter of them.
pub fn limits(drain_timeout: Duration, budgets: &Budgets, room: usize) -> ServerLimits {
    let connections = room.min(budgets.connections);
    ServerLimits {
        connections,
        connections_per_client: connections.div_ceil(SHARE_OF_A_CLIENT),
        receiving: budgets.requests,
        sending: budgets.answers,
        // An idle client must not decide how long a stop takes. The upper bound keeps sums of times in range.
        stalled_at_stop: (drain_timeout / 3).min(MAX_STALL),
        ..ServerLimits::PUBLIC
    }
}

/// The instruments of the public listener.
pub fn instruments(metrics: &Metrics) -> ServerMetrics {
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
        sent_bytes: metrics.sent_bytes.clone(),
    }
}

pub(crate) fn error_of(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::HeadTooLarge => ApiError::headers_too_large(),
        Refusal::NoRoom => ApiError::no_room(),
        Refusal::NoHost => ApiError::no_host(),
        Refusal::Ambiguous(advice) => ApiError::new(Code::InvalidRequest, advice),
    }
}

/// Routes without the last step that the public service gives its answers.
#[derive(Clone)]
pub struct Routes(pub Router);

impl Service<Request<Body>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request)
    }
}

impl App for Routes {
    fn refuse(&self, refusal: Refusal) -> Response {
        let error = error_of(refusal);
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        (status, Json(ErrorBody::new(error))).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_of_48_bits_is_charged_as_one_client_and_so_is_an_ipv4_address() {
        let proxies = TrustedProxies { networks: Vec::new() };
        let client = |address: &str| proxies.of_peer(address.parse().unwrap());
        assert_eq!(client("2001:db8::1"), client("2001:db8:0:ffff::1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:1::1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn this_machine_and_trusted_proxies_may_have_any_number_of_connections_and_nobody_else() {
        let networks = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let proxies = TrustedProxies { networks };
        let is_exempt = |address: &str| proxies.is_exempt(address.parse().unwrap());
        assert!(["127.0.0.1", "127.1.2.3", "::1", "10.1.2.3", "fd00::1"].into_iter().all(is_exempt));
        assert!(!["192.0.2.1", "11.0.0.1", "2001:db8::1", "fe80::1"].into_iter().any(is_exempt));
    }

    #[test]
    fn memory_or_descriptors_bound_the_connections_and_a_client_has_a_quarter_of_them() {
        for (memory, room, of_all_and_of_a_client) in [
            (256 << 20, usize::MAX, (4096, 1024)),
            (128 << 20, usize::MAX, (2048, 512)),
            (64 << 30, usize::MAX, (10_000, 2500)),
            (256 << 20, 4000, (4000, 1000)),
            (256 << 20, 50, (50, 13)),
            (256 << 20, 1, (1, 1)),
        ] {
            let limits = limits(Duration::from_secs(15), &Budgets::of(memory), room);
            let found = (limits.connections, limits.connections_per_client);
            assert_eq!(found, of_all_and_of_a_client, "{memory} {room}");
        }
    }
}
