//! The hosts and origins that may call the tools, in the form in which `rmcp` checks them.
//!
//! In a DNS rebinding attack a web page makes its own name point at this machine. The browser then sends that name in
//! `Host` and `Origin`, so a server that knows its own names can refuse the request.

use http::HeaderValue;
use url::Url;

use handbill_pages::values::authority::Authority;
use handbill_pages::values::origin::Origin;

/// The names by which a machine calls itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

#[derive(Clone, Debug)]
pub struct AllowedHosts {
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
    /// Whether every loopback name is allowed: true if the base URL has a loopback name.
    local: bool,
}

impl AllowedHosts {
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

    /// The allowed values of `Host`. A value without a port allows every port.
    pub(super) fn hosts(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().map(Authority::to_string).chain(self.loopback().map(str::to_owned))
    }

    /// The allowed values of `Origin`, each with its port: `rmcp` takes an origin without a port as one with any port.
    pub(super) fn origins(&self) -> impl Iterator<Item = String> {
        let local = self.loopback().flat_map(|name| [format!("http://{name}:*"), format!("https://{name}:*")]);
        self.origins.iter().filter_map(with_port).chain(local)
    }

    fn loopback(&self) -> impl Iterator<Item = &'static str> {
        LOOPBACK.into_iter().filter(|_| self.local)
    }

    /// Whether pages of `origin` may call the tools.
    pub(super) fn admits_origin(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().ok().and_then(|text| Origin::parse(text).ok());
        origin.is_some_and(|origin| self.origins.contains(&origin) || (self.local && origin.is_local()))
    }
}

fn with_port(origin: &Origin) -> Option<String> {
    let url = Url::parse(origin.as_str()).ok()?;
    Some(format!("{}://{}:{}", url.scheme(), url.host_str()?, url.port_or_known_default()?))
}
