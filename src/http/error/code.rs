//! The stable error codes: one table with the HTTP status and the advice for each.

use strum::VariantArray;

#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum Code {
    InvalidBody,
    EmptyContent,
    /// On the operators' blocklist.
    ContentRefused,
    /// The client's key and title made another page, or one that is gone.
    KeyInUse,
    MissingKey,
    InvalidKey,
    KeyInQuery,
    /// No create answers 401 (spec §7).
    KeyInQueryOfPost,
    /// A browser sent another site's form.
    CrossOrigin,
    /// Nothing was ever at this address.
    NotFound,
    MethodNotAllowed,
    /// The request did not arrive in time.
    Timeout,
    Gone,
    PreconditionFailed,
    ContentTooLarge,
    BodyTooLarge,
    RateLimited,
    HeadersTooLarge,
    /// Handbill is at fault.
    Internal,
    /// A store is unavailable, or the service is at its limits.
    Unavailable,
    /// The head is invalid, or the token endpoint cannot read the request (RFC 6749 §5.2, as the three below).
    InvalidRequest,
    InvalidClient,
    UnsupportedGrantType,
    InvalidScope,
}

impl Code {
    pub fn all() -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied()
    }

    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    pub const fn status(self) -> u16 {
        self.row().1
    }

    pub const fn advice(self) -> &'static str {
        self.row().2
    }

    /// Text, HTTP status and advice.
    const fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::InvalidBody => ("invalid_body", 400, "correct the field that the message names"),
            Self::EmptyContent => ("empty_content", 400, "send at least one character"),
            Self::ContentRefused => (
                "content_refused",
                400,
                "remove the text or link that this service does not publish, or ask its operators",
            ),
            Self::KeyInUse => {
                ("key_in_use", 400, "make a new key for a new page, or update the page that has this one")
            }
            Self::MissingKey => {
                ("missing_key", 401, "send this page's edit key, in the header or, over MCP, as `edit_key`")
            }
            Self::InvalidKey => {
                ("invalid_key", 401, "send this page's edit key, not that of another; a lost key cannot be recovered")
            }
            Self::KeyInQuery => ("key_in_query", 401, "send the key in the header only, never in the address"),
            Self::KeyInQueryOfPost => ("key_in_query", 400, "send no key in the address"),
            Self::CrossOrigin => (
                "cross_origin",
                403,
                "use the form on the home page, or send JSON to `/api/pages`, which every site may call",
            ),
            Self::NotFound => ("not_found", 404, "check the address"),
            Self::MethodNotAllowed => ("method_not_allowed", 405, "use a method that `Allow` names"),
            Self::Timeout => ("timeout", 408, "send the request again"),
            Self::Gone => ("gone", 410, "nothing: the page was deleted, or an operator has hidden it"),
            Self::PreconditionFailed => (
                "precondition_failed",
                412,
                "read the page again, then send the change with its new `ETag` in `If-Match`, or without `If-None-Match`",
            ),
            Self::ContentTooLarge => ("content_too_large", 413, "shorten the content, or split it over several pages"),
            Self::BodyTooLarge => ("body_too_large", 413, "send a smaller body"),
            Self::RateLimited => ("rate_limited", 429, "wait for the seconds in `Retry-After`, then send it again"),
            Self::HeadersTooLarge => ("headers_too_large", 431, "send fewer or shorter headers"),
            Self::Internal => ("internal", 500, "read the page before trying again"),
            Self::Unavailable => (
                "unavailable",
                503,
                "wait for the seconds in `Retry-After`; the message says whether anything may have been changed",
            ),
            Self::InvalidRequest => ("invalid_request", 400, "correct the request as the message says"),
            Self::InvalidClient => {
                ("invalid_client", 401, "send the slug as `client_id` and the edit key as `client_secret`")
            }
            Self::UnsupportedGrantType => ("unsupported_grant_type", 400, "send `grant_type=client_credentials`"),
            Self::InvalidScope => ("invalid_scope", 400, "leave `scope` out"),
        }
    }

    /// What the token endpoint answers with.
    pub const OF_TOKENS: [Self; 11] = [
        Self::InvalidRequest,
        Self::UnsupportedGrantType,
        Self::InvalidScope,
        Self::InvalidClient,
        Self::MethodNotAllowed,
        Self::Timeout,
        Self::BodyTooLarge,
        Self::RateLimited,
        Self::HeadersTooLarge,
        Self::Internal,
        Self::Unavailable,
    ];

    pub const fn is_of_oauth(self) -> bool {
        matches!(self, Self::InvalidClient | Self::UnsupportedGrantType | Self::InvalidScope)
    }
}
