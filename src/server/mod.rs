//! Connections, with what Handbill adds to them: its clients and its errors.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

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
use handbill_core::domain;
use handbill_core::domain::client::Peer;

impl Clients for TrustedProxies {
    fn of_peer(&self, address: IpAddr) -> Client {
        charged(address.into())
    }

    fn of_request(&self, peer: SocketAddr, head: &mut Parts) -> Client {
        head.extensions.insert(Peer(peer));
        charged(self.client(head))
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

/// The error that a client is told.
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
    use handbill_core::domain::client::ForwardedHeader;

    #[test]
    fn an_ipv6_network_of_48_bits_is_charged_as_one_client_and_so_is_an_ipv4_address() {
        let proxies = TrustedProxies { networks: Vec::new(), header: ForwardedHeader::XForwardedFor };
        let client = |address: &str| proxies.of_peer(address.parse().unwrap());
        assert_eq!(client("2001:db8::1"), client("2001:db8:0:ffff::1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:1::1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn this_machine_and_trusted_proxies_may_have_any_number_of_connections_and_nobody_else() {
        let networks = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let proxies = TrustedProxies { networks, header: ForwardedHeader::XForwardedFor };
        let is_exempt = |address: &str| proxies.is_exempt(address.parse().unwrap());
        assert!(["127.0.0.1", "127.1.2.3", "::1", "10.1.2.3", "fd00::1"].into_iter().all(is_exempt));
        assert!(!["192.0.2.1", "11.0.0.1", "2001:db8::1", "fe80::1"].into_iter().any(is_exempt));
    }
}
