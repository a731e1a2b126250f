//! The OAuth grant and scopes of a page's edit key (RFC 6749).

/// The one grant of the token endpoint (RFC 6749 §4.4).
pub const GRANT_TYPE: &str = "client_credentials";

/// The scope of a change of the page.
pub const SCOPE_EDIT: &str = "post:edit";

/// The scope of a deletion of the page.
pub const SCOPE_DELETE: &str = "post:delete";

/// The scopes of a page's key, each with its meaning.
pub const SCOPES: [(&str, &str); 2] = [(SCOPE_EDIT, "Edit the page"), (SCOPE_DELETE, "Delete the page")];

pub fn scope() -> String {
    SCOPES.map(|(name, _)| name).join(" ")
}
