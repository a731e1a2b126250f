//! What Handbill says of itself, in one table: names, versions, scopes and where its documents stand. Everything that
//! describes the service is made from it, so that no two descriptions can contradict each other.

/// The name for people.
pub const TITLE: &str = "Handbill";

/// The name for registries of MCP servers: a domain in reverse, a slash and the name.
pub const REGISTRY_NAME: &str = "io.handbill/handbill";

/// The version of the interface (spec §9), which is not that of the program.
pub const INTERFACE_VERSION: &str = "0.1.0";

/// What it does, in at most 100 characters.
pub const SUMMARY: &str = "Publish, read, edit and delete Markdown text posts without an account.";

/// The revisions of the Model Context Protocol that are spoken, oldest first.
pub const MCP_PROTOCOL_VERSIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// What a page's key allows, each scope with what it means.
pub const SCOPES: [(&str, &str); 2] = [("post:edit", "Edit the page"), ("post:delete", "Delete the page")];

/// The scopes as OAuth writes them in one string.
pub fn scope() -> String {
    SCOPES.map(|(name, _)| name).join(" ")
}

/// Where the interface and its descriptions stand, below the base address.
pub mod path {
    /// The OpenAPI document.
    pub const OPENAPI: &str = "/openapi.json";
    /// The MCP server.
    pub const MCP: &str = "/mcp";
    /// The token endpoint.
    pub const TOKEN: &str = "/oauth/token";
    /// Authorization server metadata (RFC 8414).
    pub const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
    /// Protected resource metadata (RFC 9728).
    pub const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
}
