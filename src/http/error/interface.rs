//! An error's words for its caller: headers over REST, arguments over MCP.

use crate::http::metadata;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    Rest,
    Mcp,
}

impl Interface {
    pub(super) const fn key_place(self) -> &'static str {
        match self {
            Self::Rest => "in the header `Authorization: Bearer <edit_key>`",
            Self::Mcp => "as the argument `edit_key`",
        }
    }

    pub(super) const fn valid_body(self) -> &'static str {
        match self {
            Self::Rest => r#"JSON such as `{"title": "Hello", "content": "My *first* page."}`"#,
            Self::Mcp => "one JSON-RPC message",
        }
    }

    /// For a page that has changed since the named state.
    pub(super) const fn stale_advice(self) -> &'static str {
        match self {
            Self::Rest => {
                "The page has changed since the version in `If-Match`. Nothing was changed: read the page again, apply your change to it and send its new `ETag`."
            }
            Self::Mcp => {
                "The page has changed since `if_updated_at`. Nothing was changed: read the page again, apply your change to it and send its new `updated_at`."
            }
        }
    }

    /// Where to read more about keys.
    pub(super) fn key_advice(self) -> String {
        match self {
            Self::Rest => format!(" `{}` describes how keys are presented.", metadata::path::PROTECTED_RESOURCE),
            Self::Mcp => String::new(),
        }
    }
}
