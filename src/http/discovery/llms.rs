//! `/llms.txt`, from `templates/llms.txt`: all that an agent needs. The lines for common clients come from their own
//! documentation.

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

pub(super) fn text(base_url: &Origin, mcp_url: &str, quotas: Quotas, site: &SiteSettings) -> String {
    let quotas = [
        ("Creates", quotas.create),
        ("Edits and deletes", quotas.edit),
        ("Tokens", quotas.token),
        ("Previews", quotas.of(LimitKind::Preview)),
    ];
    LlmsTemplate { base_url, mcp_url, quotas, site }.render().expect("writing to a string does not fail")
}
