//! The skill: how an agent that knows nothing of this server uses it (contract, decision 26). It has the same bytes at
//! each of its addresses, and over MCP.

use askama::Template;
use rmcp::model::sha256_digest;

use crate::http::metadata::{self, path};
use handbill_pages::values::origin::Origin;

/// The name of its folder too.
pub(crate) const NAME: &str = "handbill";

/// Agents choose a skill by it.
pub(crate) const DESCRIPTION: &str = "Publish, read, edit and delete public Markdown pages on a Handbill server without an account. Use when the user wants a text on the web under an address to share.";

/// Of the file, among the resources of an MCP server.
pub(crate) const URI: &str = "skill://handbill/SKILL.md";

#[derive(Template)]
#[template(path = "SKILL.md", escape = "none")]
struct SkillTemplate<'a> {
    name: &'a str,
    description: &'a str,
    base_url: &'a Origin,
    mcp_url: &'a str,
}

/// The Markdown, with the addresses of this server.
pub(crate) fn markdown(base_url: &Origin, mcp_url: &str) -> String {
    SkillTemplate { name: NAME, description: DESCRIPTION, base_url, mcp_url }
        .render()
        .expect("writing to a string does not fail")
}

/// `sha256:` and hexadecimal, as the index and MCP write it.
pub(super) fn digest(markdown: &str) -> String {
    sha256_digest(markdown.as_bytes())
}
