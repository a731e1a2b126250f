//! Checks the `Host` and `Origin` of requests to `/mcp`.
//!
//! In a DNS rebinding attack a web page makes its own name point at this machine. The browser then sends that name in
//! `Host` and `Origin`, so a server that knows its own names can refuse the request.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use rmcp::ErrorData;

use super::error::ProtocolRefusal;
use handbill_core::domain::authority::Authority;
use handbill_core::domain::origin::Origin;

#[derive(Clone, Debug)]
pub struct HostCheck {
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
    /// Whether every loopback name is allowed: true if the base URL has a loopback name.
    local: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostCheckError {
    MissingHost,
    DuplicateHost,
    Host,
    Origin,
}

impl HostCheck {
    /// Allows the hosts and origins in `own`, those of the service itself, and also `hosts` and `origins`. If one of `own` has
    /// a loopback name, all loopback names are allowed, with any port.
    pub fn new<'a>(
        own: impl IntoIterator<Item = &'a Origin>,
        mut hosts: Vec<Authority>,
        mut origins: Vec<Origin>,
    ) -> Self {
        let mut local = false;
        for origin in own {
            hosts.extend(origin.host());
            origins.push(origin.clone());
            local |= origin.is_local();
        }
        Self { hosts, origins, local }
    }

    /// Whether pages of `origin` may call the tools.
    pub(super) fn admits_origin(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().ok().and_then(|text| Origin::parse(text).ok());
        origin.is_some_and(|origin| self.origins.contains(&origin) || (self.local && origin.is_local()))
    }

    fn admits_host(&self, host: &Authority) -> bool {
        self.hosts.iter().any(|allowed| allowed.admits(host)) || (self.local && host.is_local())
    }

    /// Fails if a request to `uri` with these headers is for another host or from another origin.
    pub(super) fn verify(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HostCheckError> {
        let mut lines = headers.get_all(HOST).iter();
        let host = match (lines.next(), lines.next()) {
            (Some(line), None) => line.to_str().ok().and_then(|text| Authority::parse(text).ok()),
            (None, _) => match uri.authority() {
                Some(authority) => Authority::parse(authority.as_str()).ok(),
                None => return Err(HostCheckError::MissingHost),
            },
            (Some(_), Some(_)) => return Err(HostCheckError::DuplicateHost),
        };
        if !host.is_some_and(|host| self.admits_host(&host)) {
            return Err(HostCheckError::Host);
        }
        // Only browsers send an origin. If there are several, all of them must be allowed.
        if headers.get_all(ORIGIN).iter().all(|origin| self.admits_origin(origin)) {
            Ok(())
        } else {
            Err(HostCheckError::Origin)
        }
    }
}

impl From<HostCheckError> for ProtocolRefusal {
    fn from(error: HostCheckError) -> Self {
        let (status, message) = error.answer();
        Self::new(status, ErrorData::invalid_request(message, None))
    }
}

impl HostCheckError {
    const fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::MissingHost => {
                (StatusCode::BAD_REQUEST, "The header `Host` is missing. Send the host of the address.")
            }
            Self::DuplicateHost => (StatusCode::BAD_REQUEST, "The header `Host` was sent twice. Send it once."),
            Self::Host => (
                StatusCode::FORBIDDEN,
                "The server does not know the host in the header `Host`. Use its public address; its operator can allow more hosts with --allowed-hosts.",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "Pages of this origin may not call the server from a browser. Call it from outside a browser; its operator can allow origins with --allowed-hosts.",
            ),
        }
    }
}
