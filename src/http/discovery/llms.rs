//! `/llms.txt`: instructions for agents, from `templates/llms.txt`. An agent needs no other document to use the service. The lines that
//! add the server to common clients are those of the documentation of each, and `docs/client.md` has them too.

use askama::Template;

use super::super::state::SiteSettings;
use crate::http::error::Code;
use crate::http::metadata::{self, path};
use crate::http::request::MAX_BODY_BYTES;
use handbill_pages::ports::rate_limiter::{LimitKind, Quotas};
use handbill_pages::values::origin::Origin;
use handbill_pages::values::quota::Quota;
use handbill_pages::values::{content, oauth, title};

#[derive(Template)]
#[template(path = "llms.txt")]
struct LlmsTemplate<'a> {
    base_url: &'a Origin,
    mcp_url: &'a str,
    quotas: [(&'static str, Option<Quota>); 4],
    site: &'a SiteSettings,
}

fn window(quota: &Quota) -> humantime::FormattedDuration {
    humantime::format_duration(quota.window)
}

/// The text for a service at `base_url` with these `quotas`.
pub(super) fn text(base_url: &Origin, mcp_url: &str, quotas: Quotas, site: &SiteSettings) -> String {
    let quotas = [
        ("Creates", quotas.create),
        ("Edits and deletes", quotas.edit),
        ("Tokens", quotas.token),
        ("Previews", quotas.of(LimitKind::Preview)),
    ];
    LlmsTemplate { base_url, mcp_url, quotas, site }.render().expect("writing to a string does not fail")
}
