//! The hosts and origins that may call the tools, and the separate host for the tools (contract, decision 24).

use http::HeaderValue;
use http::header::HOST;
use http::request::Parts;
use url::Url;

use super::state::SiteSettings;
use crate::http::error::{ApiError, Code};
use crate::http::metadata::{ICONS, path};
use handbill_pages::values::origin::{Authority, Origin};

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

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

    pub fn admits_origin(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().ok().and_then(|text| Origin::parse(text).ok());
        origin.is_some_and(|origin| self.origins.contains(&origin) || (self.local && origin.is_local()))
    }
}

fn with_port(origin: &Origin) -> Option<String> {
    let url = Url::parse(origin.as_str()).ok()?;
    Some(format!("{}://{}:{}", url.scheme(), url.host_str()?, url.port_or_known_default()?))
}

/// The icons too.
const OF_TOOLS: [&str; 10] = [
    path::MCP,
    path::SERVER_CARD,
    path::SERVER_CARD_BESIDE,
    path::AI_CATALOG,
    path::SKILL_INDEX,
    path::SKILL,
    path::SKILL_SHORT,
    path::LLMS,
    path::ICON_PHONE,
    path::ROBOTS,
];

/// Hosted clients first ask a server's origin for OAuth documents, and take the public host's for a login. This host
/// has neither these documents nor pages.
pub(super) struct McpHost {
    host: Authority,
    paths: Vec<String>,
    advice: String,
}

impl McpHost {
    pub(super) fn of(base_url: &Origin, site: &SiteSettings) -> Option<Self> {
        let host = site.mcp_base_url.as_ref()?.host()?;
        let icons = ICONS.map(|(path, ..)| path);
        let paths = OF_TOOLS.into_iter().chain(icons).map(str::to_owned).collect();
        let advice = format!("This host serves the tools alone, at {}. Everything else is at {base_url}.", path::MCP);
        Some(Self { host, paths, advice })
    }

    pub(super) fn refuse(&self, head: &Parts) -> Option<ApiError> {
        // The absolute form's authority precedes `Host` (RFC 9112 §3.2.2).
        let in_header = || head.headers.get(HOST)?.to_str().ok();
        let asked =
            Authority::parse(head.uri.authority().map(http::uri::Authority::as_str).or_else(in_header)?).ok()?;
        let is_absent = self.host.is_same_host(&asked) && !self.paths.iter().any(|path| path == head.uri.path());
        is_absent.then(|| ApiError::new(Code::NotFound, self.advice.clone()))
    }
}
