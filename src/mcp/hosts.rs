//! The hosts and origins that may call the tools.

use http::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};
use url::Url;

use crate::http::middleware::PREFLIGHT_AGE;
use crate::telemetry::http::X_REQUEST_ID;
use handbill_pages::values::origin::{Authority, Origin};

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Header fields of requests from scripts.
const REQUEST_FIELDS: [HeaderName; 8] = [
    ACCEPT,
    AUTHORIZATION,
    CONTENT_TYPE,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-session-id"),
];

/// In a DNS rebinding attack, a web page points its own name at this machine. The browser sends that name in `Host` and
/// `Origin`.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    hosts: Vec<Authority>,
    origins: Vec<Origin>,
    local: bool,
}

impl AllowedHosts {
    /// `own` are the service's origins. If one of them is a loopback name, all loopback names are allowed.
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

    pub fn hosts(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().map(Authority::to_string).chain(self.loopback().map(str::to_owned))
    }

    /// With a port: `rmcp` takes an origin without one as any port.
    pub fn origins(&self) -> impl Iterator<Item = String> {
        let local = self.loopback().flat_map(|name| [format!("http://{name}:*"), format!("https://{name}:*")]);
        self.origins.iter().filter_map(with_port).chain(local)
    }

    fn loopback(&self) -> impl Iterator<Item = &'static str> {
        LOOPBACK.into_iter().filter(|_| self.local)
    }

    /// For scripts of these origins.
    pub fn cors(&self) -> CorsLayer {
        let allowed = self.clone();
        CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(move |origin, _| allowed.admits_origin(origin)))
            .allow_methods([Method::POST])
            .allow_headers(REQUEST_FIELDS)
            .expose_headers([ALLOW, RETRY_AFTER, X_REQUEST_ID])
            .max_age(PREFLIGHT_AGE)
    }

    fn admits_origin(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().ok().and_then(|text| Origin::parse(text).ok());
        origin.is_some_and(|origin| self.origins.contains(&origin) || (self.local && origin.is_local()))
    }
}

fn with_port(origin: &Origin) -> Option<String> {
    let url = Url::parse(origin.as_str()).ok()?;
    Some(format!("{}://{}:{}", url.scheme(), url.host_str()?, url.port_or_known_default()?))
}
