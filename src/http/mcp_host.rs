//! The separate host for the tools (contract, decision 24).

use http::{header::HOST, request::Parts};

use super::state::SiteSettings;
use crate::http::error::{ApiError, Code};
use crate::http::metadata::{ICONS, path};
use handbill_pages::values::origin::{Authority, Origin};

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
        let asked = match head.uri.authority() {
            Some(authority) => authority.as_str(),
            None => head.headers.get(HOST)?.to_str().ok()?,
        };
        let asked = Authority::parse(asked).ok()?;
        let is_absent = self.host.is_same_host(&asked) && !self.paths.iter().any(|path| path == head.uri.path());
        is_absent.then(|| ApiError::new(Code::NotFound, self.advice.clone()))
    }
}
