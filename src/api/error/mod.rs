//! Every error that a client can meet, for REST and MCP alike: its code, in the table of `code`, and what to say about it.

mod code;
mod token;

pub use self::code::Code;
use crate::api::metadata;
use crate::api::request::{MAX_BODY_BYTES, MAX_HEAD_BYTES};
use crate::domain::content::{ContentError, MAX_BYTES};
use crate::domain::quota::Decision;
use crate::domain::title::{MAX_CHARS, TitleError};
use crate::ports::page_store::StoreError;
use crate::service::{BodyError, BodyReadError, ServiceError};

/// Seconds after which a client may try again when a store was out of reach. A guess: outages of one database node
/// are over sooner, and a client that waits this long adds no load worth speaking of.
const RETRY_UNAVAILABLE_SECONDS: u64 = 5;

/// An error as a client meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The stable code.
    pub code: Code,
    /// What went wrong and what to do about it.
    pub message: String,
    /// Whole seconds after which trying again makes sense.
    pub retry_after: Option<u64>,
}

impl ApiError {
    /// A problem that waiting does not mend.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None }
    }

    fn after(code: Code, seconds: u64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: Some(seconds) }
    }

    /// A store that is out of reach.
    fn unavailable(what: &str, next: &str) -> Self {
        let seconds = RETRY_UNAVAILABLE_SECONDS;
        Self::after(Code::Unavailable, seconds, format!("{what} {next} after {seconds} seconds."))
    }

    /// An address that no route leads to.
    pub fn no_route() -> Self {
        Self::new(
            Code::NotFound,
            format!(
                "Nothing is at this address. Pages are published by `POST /api/pages`; `{}` tells how, and `{}` describes every operation.",
                metadata::path::LLMS,
                metadata::path::OPENAPI,
            ),
        )
    }

    /// A method that the address does not take, before it is known which it takes.
    pub fn method_not_allowed() -> Self {
        Self::new(
            Code::MethodNotAllowed,
            "This address does not take this method. The header `Allow` names those that it takes.",
        )
    }

    /// A method that the address does not take, where it takes these.
    pub fn method_not_allowed_but(allowed: &[&str]) -> Self {
        let methods = match allowed {
            [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
            _ => allowed.concat(),
        };
        Self::new(
            Code::MethodNotAllowed,
            format!("This address does not take this method. It takes {methods}, as the header `Allow` says."),
        )
    }

    /// A request whose head is over [`MAX_HEAD_BYTES`].
    pub fn headers_too_large() -> Self {
        Self::new(
            Code::HeadersTooLarge,
            format!(
                "The address and headers of a request may have at most {MAX_HEAD_BYTES} bytes. Send fewer or shorter ones."
            ),
        )
    }

    /// A key in the query string of a request that is no update and no delete of its own.
    pub fn key_in_address() -> Self {
        Self::new(
            Code::InvalidRequest,
            "A key is in the address, where logs and histories keep it. Nothing was done. Send it as the argument `edit_key` only, take it for published, and delete its page.",
        )
    }

    /// A request for which, or for whose answer, there is no memory left.
    pub fn no_room() -> Self {
        Self::unavailable("Too much is being sent at the moment.", "Nothing was changed: try again")
    }

    /// An answer for which there is no memory left, to a request that may have changed something.
    pub fn no_room_to_answer() -> Self {
        Self::unavailable(
            "Too much is being sent at the moment to answer.",
            "A change may have been made: read the page, or try again",
        )
    }

    /// What to say when Handbill itself is at fault.
    pub fn internal() -> Self {
        Self::new(
            Code::Internal,
            "Something went wrong on our side. A change may or may not have been made: read the page before you try again.",
        )
    }
}

/// Logs what failed inside, once, with its causes; a client's own mistakes are not logged.
pub fn log(error: &ServiceError) {
    match error {
        ServiceError::Store(error) => tracing::error!(error = causes(error), "the store failed"),
        ServiceError::DeadlinePassed | ServiceError::NoFreeSlug => {
            tracing::error!(error = %error, "an operation failed");
        }
        _ => {}
    }
}

/// An error and all its causes, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

/// Whom an error is told to: the advice names what that caller sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// A client of the REST API, with headers.
    Rest,
    /// A caller of a tool, with arguments.
    Mcp,
}

impl Interface {
    /// Where a key belongs.
    const fn key_place(self) -> &'static str {
        match self {
            Self::Rest => "in the header `Authorization: Bearer <edit_key>`",
            Self::Mcp => "as the argument `edit_key`",
        }
    }

    /// A body that works.
    const fn right_body(self) -> &'static str {
        match self {
            Self::Rest => r#"JSON such as `{"title": "Hello", "content": "My *first* page."}`"#,
            Self::Mcp => "one JSON-RPC message",
        }
    }

    /// Where a client without a valid key learns more: a sentence after others, or nothing.
    fn key_advice(self) -> String {
        match self {
            Self::Rest => format!(" `{}` describes how keys are presented.", metadata::path::PROTECTED_RESOURCE),
            Self::Mcp => String::new(),
        }
    }
}

impl From<&ServiceError> for ApiError {
    fn from(error: &ServiceError) -> Self {
        Self::of(error, Interface::Rest)
    }
}

impl From<&BodyError> for ApiError {
    fn from(fault: &BodyError) -> Self {
        Self::of_body(fault, Interface::Rest)
    }
}

impl ApiError {
    /// What to tell a caller of `interface` about `failure`.
    pub fn of(error: &ServiceError, interface: Interface) -> Self {
        match error {
            ServiceError::Body(fault) => Self::of_body(fault, interface),
            ServiceError::MissingKey => Self::new(
                Code::MissingKey,
                format!(
                    "Send the page's edit key {}. It was shown once, when the page was created.{}",
                    interface.key_place(),
                    interface.key_advice(),
                ),
            ),
            ServiceError::InvalidKey => Self::new(
                Code::InvalidKey,
                format!(
                    "This is not the edit key of this page. Use the one that was shown when this very page was created; a lost key cannot be recovered.{}",
                    interface.key_advice(),
                ),
            ),
            ServiceError::KeyInQuery => Self::new(
                Code::KeyInQuery,
                format!(
                    "Nothing was changed. Send the edit key {} only, and take it out of the address: addresses end up in logs and histories.{}",
                    interface.key_place(),
                    interface.key_advice(),
                ),
            ),
            ServiceError::NotFound => Self::new(
                Code::NotFound,
                "No page has this address. Check the slug: it is the last part of the `url` that was given out when the page was created.",
            ),
            ServiceError::Gone => Self::new(
                Code::Gone,
                "This page was deleted. It cannot come back, and its address will not be used again; publish a new page instead.",
            ),
            ServiceError::PreconditionFailed => Self::new(
                Code::PreconditionFailed,
                "The page has changed since the version that `If-Match` names. Nothing was changed: read the page again, apply your change to it and send its new `ETag`.",
            ),
            ServiceError::StateExcluded => Self::new(
                Code::PreconditionFailed,
                "The page is in a state that `If-None-Match` names. Nothing was changed: read the page again, and send the change without that header if it is still wanted.",
            ),
            ServiceError::RateLimited(decision) => rate_limited(decision),
            ServiceError::Token(fault) => fault.into(),
            ServiceError::Store(StoreError::Unavailable(_)) => {
                Self::unavailable("The store is out of reach for the moment.", "Nothing was changed: try again")
            }
            ServiceError::Store(StoreError::OutcomeUnknown(_)) | ServiceError::DeadlinePassed => Self::unavailable(
                "The store did not answer in time.",
                "A change may or may not have been made, wholly or not at all: read the page, or try again",
            ),
            ServiceError::Overloaded => Self::unavailable("Too many large pages are being read right now.", "Retry"),
            ServiceError::NoFreeSlug => {
                Self::unavailable("No free address was found for this title.", "Nothing was published: try again")
            }
            ServiceError::Store(StoreError::Unreadable(_)) => Self::internal(),
        }
    }

    fn of_body(fault: &BodyError, interface: Interface) -> Self {
        match fault {
            BodyError::Read(BodyReadError::TooLarge) => Self::new(
                Code::BodyTooLarge,
                format!(
                    "The request body may have at most {MAX_BODY_BYTES} bytes. Shorten `content`, or write it in UTF-8 instead of `\\u` escapes."
                ),
            ),
            BodyError::Read(BodyReadError::TimedOut) => Self::new(
                Code::Timeout,
                "The request body did not arrive in time. Nothing was changed: send the request again.",
            ),
            BodyError::Read(BodyReadError::NoRoom) => Self::no_room(),
            BodyError::Read(BodyReadError::BrokenOff) => invalid(
                "The body of the request broke off before its end. Nothing was changed: send the request again.",
            ),
            BodyError::Read(BodyReadError::ContentType) => invalid(format!(
                "The body is not declared as JSON, so it was not read. Send {}, with the header `Content-Type: application/json`.",
                interface.right_body(),
            )),
            BodyError::Read(BodyReadError::ContentEncoding) => invalid(
                "The header `Content-Encoding` says that the body is encoded, and no encoding is understood. Send the body as it is, without that header.",
            ),
            BodyError::Malformed(what) => invalid(what),
            BodyError::KeyType => invalid("The field `edit_key` has the wrong type. Send it as a string."),
            BodyError::Title(TitleError::Empty) => invalid(
                "The field `title` is empty: nothing in it would show. Give the page a title of 1 to 200 characters.",
            ),
            BodyError::Title(error @ TitleError::TooLong { .. }) => {
                invalid(format!("The field `title` is too long: {error}. Shorten it to {MAX_CHARS} characters."))
            }
            BodyError::Title(error @ TitleError::ControlCharacter(_)) => invalid(format!(
                "The field `title` is not valid: {error}. Leave out line breaks, tabs and other control characters."
            )),
            BodyError::Title(error @ TitleError::BidirectionalControl(_)) => invalid(format!(
                "The field `title` is not valid: {error}. Leave out embeddings, overrides and isolates; the marks U+200E, U+200F and U+061C may stay."
            )),
            BodyError::Title(error @ TitleError::LineSeparator(_)) => {
                invalid(format!("The field `title` is not valid: {error}. Write the title on one line."))
            }
            BodyError::Content(ContentError::Empty) => Self::new(
                Code::EmptyContent,
                "The field `content` is empty. Send at least one character of Markdown, or leave the field out of an update to keep what is there.",
            ),
            BodyError::Content(error @ ContentError::TooLarge { .. }) => Self::new(
                Code::ContentTooLarge,
                format!(
                    "The field `content` is too large: {error}, counted in UTF-8. Shorten it to {MAX_BYTES} bytes or split it over several pages."
                ),
            ),
            BodyError::NullContent => invalid(
                "The field `content` is null, and a page cannot be without content. Leave the field out to keep what is there, or delete the page.",
            ),
            BodyError::HoldsKey(field) => invalid(format!(
                "The field `{field}` contains the page's own edit key, as it was sent or as it would be shown, which would publish it. Nothing was changed: take the key out of the text."
            )),
        }
    }
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidBody, message)
}

fn rate_limited(decision: &Decision) -> ApiError {
    let seconds = decision.retry_after_seconds();
    let limit = decision.quota.limit;
    let window = decision.quota.window.as_secs();
    ApiError::after(
        Code::RateLimited,
        seconds,
        format!(
            "At most {limit} such requests are allowed in any {window} seconds. Nothing was changed: try again after {seconds} seconds."
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_in_the_order_of_its_declaration() {
        for (place, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, place, "{code:?}");
        }
        assert_eq!(Code::ALL.len(), Code::InvalidScope as usize + 1, "the last one declared is listed");
    }

    #[test]
    fn a_405_names_its_methods_in_a_sentence() {
        let message = |allowed: &[&str]| ApiError::method_not_allowed_but(allowed).message;
        assert!(message(&["POST"]).contains("It takes POST, as"));
        assert!(message(&["GET", "HEAD"]).contains("It takes GET and HEAD, as"));
        assert!(message(&["GET", "HEAD", "PATCH"]).contains("It takes GET, HEAD and PATCH, as"));
    }
}
