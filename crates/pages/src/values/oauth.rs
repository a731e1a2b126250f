//! An edit key as an OAuth grant (RFC 6749).

/// RFC 6749 §4.4.
pub const GRANT_TYPE: &str = "client_credentials";

pub const SCOPE_EDIT: &str = "post:edit";

pub const SCOPE_DELETE: &str = "post:delete";

pub const SCOPES: [(&str, &str); 2] = [(SCOPE_EDIT, "Edit the page"), (SCOPE_DELETE, "Delete the page")];

pub fn scope() -> String {
    SCOPES.map(|(name, _)| name).join(" ")
}
