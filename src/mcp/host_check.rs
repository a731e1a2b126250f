//! Which hosts and origins `/mcp` is called by.
//!
//! A page in a browser whose name was made to point at this machine (DNS rebinding) names itself in `Host` and
//! `Origin`, so a server that knows its own names can tell. `rmcp` has such a check too; it comes after preflights and
//! answers in plain text, so this one stands in its place.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use rmcp::ErrorData;

use super::error::Refusal;
use crate::domain::authority::Authority;
use crate::domain::origin::Origin;

/// The hosts and origins.
#[derive(Clone, Debug)]
pub struct HostCheck {
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
    /// Whether every name of this machine is allowed, which is so where the service is served from one.
    local: bool,
}

/// What is wrong with where a request says that it goes or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NoHost,
    TwoHosts,
    Host,
    Origin,
}

impl HostCheck {
    /// The host and origin of `base_url` and these others. Where `base_url` is this machine as it calls itself, so are
    /// all of its loopback names, with any port.
    pub fn new(base_url: &Origin, hosts: Vec<Authority>, origins: Vec<Origin>) -> Self {
        let hosts = base_url.host().into_iter().chain(hosts).collect();
        let origins = [base_url.clone()].into_iter().chain(origins).collect();
        Self { hosts, origins, local: base_url.is_local() }
    }

    /// Whether pages of `origin` may call.
    pub(super) fn admits_origin(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().ok().and_then(|text| Origin::parse(text).ok());
        origin.is_some_and(|origin| self.origins.contains(&origin) || (self.local && origin.is_local()))
    }

    fn admits_host(&self, host: &Authority) -> bool {
        self.hosts.iter().any(|allowed| allowed.admits(host)) || (self.local && host.is_local())
    }

    fn verify(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Fault> {
        let mut lines = headers.get_all(HOST).iter();
        let host = match (lines.next(), lines.next()) {
            (Some(line), None) => line.to_str().ok().and_then(|text| Authority::parse(text).ok()),
            (None, _) => match uri.authority() {
                Some(authority) => Authority::parse(authority.as_str()).ok(),
                None => return Err(Fault::NoHost),
            },
            (Some(_), Some(_)) => return Err(Fault::TwoHosts),
        };
        if !host.is_some_and(|host| self.admits_host(&host)) {
            return Err(Fault::Host);
        }
        // Only browsers send an origin, and each of several would have to be ours.
        if headers.get_all(ORIGIN).iter().all(|origin| self.admits_origin(origin)) {
            Ok(())
        } else {
            Err(Fault::Origin)
        }
    }
}

/// Refuses what comes by another host or from another origin.
pub(super) async fn check(State(allowed): State<Arc<HostCheck>>, request: Request, next: Next) -> Response {
    match allowed.verify(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(fault) => {
            let (status, message) = fault.answer();
            Refusal::new(status, ErrorData::invalid_request(message, None)).into_response()
        }
    }
}

impl Fault {
    const fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::NoHost => {
                (StatusCode::BAD_REQUEST, "The header `Host` is missing. Send the host that the address names.")
            }
            Self::TwoHosts => (StatusCode::BAD_REQUEST, "The header `Host` is there twice. Send it once."),
            Self::Host => (
                StatusCode::FORBIDDEN,
                "The server is not known by the host in the header `Host`. Call it by its public address; its operator allows further hosts with --mcp-allowed-hosts.",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "Pages of this origin may not call the server from a browser. Call it from outside of a browser; its operator allows origins with --mcp-allowed-origins.",
            ),
        }
    }
}
