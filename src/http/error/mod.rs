//! Every error that a client can receive, from REST and MCP alike.

mod code;
mod interface;
mod token;

pub use self::code::Code;
pub use self::interface::Interface;
use crate::http::metadata;
use crate::http::request::{MAX_BODY_BYTES, MAX_HEAD_BYTES};
use handbill_pages::ports::page_store::StoreError;
use handbill_pages::ports::rate_limiter::LimitKind;
use handbill_pages::ports::renderer::RenderError;
use handbill_pages::service::{BodyError, BodyReadError, ServiceError};
use handbill_pages::values::content::{ContentError, MAX_BYTES};
use handbill_pages::values::edit_key::{MIN_DIFFERENT_CHARS, NotANewKey};
use handbill_pages::values::quota::{Decision, Quota};
use handbill_pages::values::text_edits::{MAX_EDITS, TextEditError};
use handbill_pages::values::title::{MAX_CHARS, TitleError};

/// An estimate: a database node's outage is shorter, and clients that wait this long add little load.
const RETRY_UNAVAILABLE_SECONDS: u64 = 5;

/// The end of a pause is unknown.
const RETRY_PAUSED_SECONDS: u64 = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub code: Code,
    /// Also says how to solve the problem.
    pub message: String,
    /// Whole seconds after which a retry makes sense.
    pub retry_after: Option<u64>,
    /// For the log, where the code does not say what refused the request.
    pub refused_by: Option<&'static str>,
}

impl ApiError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, refused_by: None }
    }

    fn after(code: Code, seconds: u64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: Some(seconds), refused_by: None }
    }

    fn by(self, what: &'static str) -> Self {
        Self { refused_by: Some(what), ..self }
    }

    /// Appends the advice to retry to `message`.
    fn unavailable(part: &'static str, message: &str) -> Self {
        let seconds = RETRY_UNAVAILABLE_SECONDS;
        Self::after(Code::Unavailable, seconds, format!("{message} retry in {seconds} seconds.")).by(part)
    }

    pub fn no_route() -> Self {
        Self::new(
            Code::NotFound,
            format!(
                "Nothing is at this address. Publish a page with `POST /api/pages`; `{}` explains how, and `{}` describes every operation.",
                metadata::path::LLMS,
                metadata::path::OPENAPI,
            ),
        )
    }

    pub fn method_not_allowed(allowed: &[&str]) -> Self {
        let methods = match allowed {
            [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
            _ => allowed.concat(),
        };
        Self::new(Code::MethodNotAllowed, format!("Method not allowed here. Use {methods}."))
    }

    pub fn no_host() -> Self {
        Self::new(Code::InvalidRequest, "The header `Host` is missing. Send the host that the address names.")
    }

    pub fn headers_too_large() -> Self {
        Self::new(
            Code::HeadersTooLarge,
            format!(
                "The address and headers of a request may have at most {MAX_HEAD_BYTES} bytes. Send fewer or shorter ones."
            ),
        )
    }

    /// A key in the query string, at the MCP server.
    pub fn key_in_address() -> Self {
        Self::new(
            Code::InvalidRequest,
            "The address contains a key, and addresses end up in logs and histories. Nothing was done. Treat the key as published and delete its page. Send keys as the argument `edit_key` only.",
        )
    }

    pub fn cross_origin() -> Self {
        Self::new(
            Code::CrossOrigin,
            "A page of another site sent this form, so nothing was published. Use the form on this site's home page; scripts of other sites send JSON to `POST /api/pages`.",
        )
    }

    pub fn no_room() -> Self {
        Self::unavailable("memory", "Too much data is being sent at the moment. Nothing was changed;")
    }

    pub fn too_many_calls() -> Self {
        Self::unavailable("tools", "Too many tools are being called at the moment. Nothing was changed;")
    }

    /// The request may have changed something.
    pub fn no_room_to_answer() -> Self {
        Self::unavailable(
            "memory",
            "Too much data is being sent at the moment, so the response was dropped. A change may have been made: read the page, or",
        )
    }

    pub fn internal() -> Self {
        Self::new(
            Code::Internal,
            "Something went wrong on our side. A change may or may not have been made: read the page before you try again.",
        )
    }
}

/// Logs internal failures. The store's failures are logged where its calls are recorded.
pub fn log(error: &ServiceError) {
    if let ServiceError::DeadlinePassed | ServiceError::NoFreeSlug = error {
        tracing::error!(error = %error, "an operation failed");
    }
}

impl From<&ServiceError> for ApiError {
    fn from(error: &ServiceError) -> Self {
        Self::of(error, Interface::Rest)
    }
}

impl From<&BodyError> for ApiError {
    fn from(error: &BodyError) -> Self {
        Self::of_body(error, Interface::Rest)
    }
}

impl ApiError {
    pub fn of(error: &ServiceError, interface: Interface) -> Self {
        match error {
            ServiceError::Body(error) => Self::of_body(error, interface),
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
                    "This is not the edit key of this page. Use the one that was shown when this page was created; a lost key cannot be recovered.{}",
                    interface.key_advice(),
                ),
            ),
            ServiceError::KeyInQuery => Self::new(
                Code::KeyInQuery,
                format!(
                    "The address contains a key, and addresses end up in logs and histories. Nothing was changed. Send the edit key {} only.{}",
                    interface.key_place(),
                    interface.key_advice(),
                ),
            ),
            ServiceError::NotFound => Self::new(
                Code::NotFound,
                "No such page. Check the slug: it is the last part of the page's URL.",
            ),
            ServiceError::Gone => Self::new(
                Code::Gone,
                "This page was deleted. It cannot come back, and its address will not be used again; publish a new page instead.",
            ),
            ServiceError::PreconditionFailed => Self::new(Code::PreconditionFailed, interface.stale_advice()),
            ServiceError::StateExcluded => Self::new(
                Code::PreconditionFailed,
                "The page matches `If-None-Match`. Nothing was changed: read the page again, and send the change without that header if you still want it.",
            ),
            ServiceError::RateLimited(kind, decision) => rate_limited(*kind, decision),
            ServiceError::ContentRefused => Self::new(
                Code::ContentRefused,
                "The field `content` contains a text or a link that the operators of this service do not publish. Nothing was changed. Remove it, or ask the operators if you think that this is a mistake.",
            ),
            ServiceError::KeyInUse => Self::new(
                Code::KeyInUse,
                "A page with this `edit_key` and title exists or existed, and its content is not the one that was sent. Nothing was published. Make a new key for a new page, or update the page with its key.",
            ),
            ServiceError::BlocklistUnknown => Self::after(
                Code::Unavailable,
                RETRY_PAUSED_SECONDS,
                format!(
                    "The operators' list of what is not published cannot be read. Nothing was changed; retry in {RETRY_PAUSED_SECONDS} seconds. Reading and deleting still work."
                ),
            )
            .by("blocklist"),
            ServiceError::CreatesPaused => Self::after(
                Code::Unavailable,
                RETRY_PAUSED_SECONDS,
                format!(
                    "The operators of this service have paused the creation of pages. Nothing was published; retry in {RETRY_PAUSED_SECONDS} seconds. Reading, updating and deleting still work."
                ),
            )
            .by("pause"),
            ServiceError::Token(error) => error.into(),
            ServiceError::Store(StoreError::Unavailable(_)) => {
                Self::unavailable("store", "Storage is temporarily unavailable. Nothing was changed;")
            }
            ServiceError::Store(StoreError::OutcomeUnknown(_)) | ServiceError::DeadlinePassed => Self::unavailable("store", "Storage did not answer in time. A change may or may not have been made, but never in part: read the page, or"),
            ServiceError::Overloaded => Self::unavailable("memory", "Too many large pages are being read at the moment. Nothing was changed;"),
            ServiceError::Rendering(RenderError) => {
                Self::unavailable("rendering", "Too many texts are being turned into pages at the moment. Nothing was changed;")
            }
            ServiceError::NoFreeSlug => {
                Self::unavailable("store", "No free address was found for this title. Nothing was published;")
            }
            ServiceError::Store(StoreError::Unreadable(_)) => Self::internal().by("store"),
        }
    }

    fn of_body(error: &BodyError, interface: Interface) -> Self {
        match error {
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
            BodyError::Read(BodyReadError::InPieces) => {
                invalid("The body comes in too many small chunks. Send it in chunks of at least 32 bytes, or whole.")
            }
            BodyError::Read(BodyReadError::BrokenOff) => invalid(
                "The request body ended too early, or its chunks are malformed. Nothing was changed: send the request again.",
            ),
            BodyError::Read(BodyReadError::ContentType) => invalid(format!(
                "The body is not declared as JSON, so it was not read. Send {}, with the header `Content-Type: application/json`.",
                interface.valid_body(),
            )),
            BodyError::Read(BodyReadError::ContentEncoding) => invalid(
                "The header `Content-Encoding` is present, and no encoding is understood. Send the body unencoded, without that header.",
            ),
            BodyError::Malformed(what) => invalid(what),
            BodyError::KeyType => invalid("The field `edit_key` has the wrong type. Send it as a string."),
            BodyError::Missing(field) => invalid(format!("The field `{field}` is missing. Send it as a string.")),
            BodyError::NoTitle => invalid(
                "The page has no title. Send the field `title`, or `?title=…` in the address, or begin the text with a heading such as `# My page`.",
            ),
            BodyError::FoundTitle(error) => invalid(format!(
                "No title was sent, and the one that was found, in the text's heading or the file's name, cannot be one: {error}. Send the field `title`, or `?title=…` in the address."
            )),
            BodyError::Title(TitleError::Empty) => {
                invalid(format!("`title` is empty. Use 1 to {MAX_CHARS} visible characters."))
            }
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
                "The field `content` is empty. Send at least one character of Markdown, or leave the field out of an update to keep the content.",
            ),
            BodyError::Content(ContentError::TooLarge { bytes }) => Self::new(
                Code::ContentTooLarge,
                format!(
                    "`content` has {bytes} bytes; the limit is {MAX_BYTES} (UTF-8). Shorten it or split it into several pages."
                ),
            ),
            BodyError::Edit(error) => invalid(edit_advice(error)),
            BodyError::TwoTexts => invalid(
                "The fields `content` and `edits` exclude each other. Send `edits` to change parts of the content, or `content` to replace all of it.",
            ),
            BodyError::NoTimestamp => invalid(
                "The field `if_updated_at` is not a time. Send the page's `updated_at` exactly as it was returned, such as `2026-11-21T04:30:00.123Z`.",
            ),
            BodyError::NullContent => invalid(
                "The field `content` is null, but a page must have content. Leave the field out to keep the content, or delete the page.",
            ),
            BodyError::NewKey(NotANewKey::Shape) => invalid(
                "The field `edit_key` is no edit key. Make one for this page, of `hbk_` and 43 characters of `[0-9A-Za-z]` from a cryptographic generator, or leave the field out.",
            ),
            BodyError::NewKey(NotANewKey::FewCharacters) => invalid(format!(
                "The field `edit_key` has fewer than {MIN_DIFFERENT_CHARS} different characters, so no generator made it. Draw a key for this page from a cryptographic generator, or leave the field out."
            )),
            BodyError::HoldsKey(field) => invalid(format!(
                "The field `{field}` contains the page's own edit key, as text or as it would be displayed, and would publish it. Nothing was changed: remove the key from the text."
            )),
        }
    }
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidBody, message)
}

/// Such as `10 new pages per hour`.
pub fn quota_in_words(kind: LimitKind, Quota { limit, window }: Quota) -> String {
    let what = match kind {
        LimitKind::Create => "new page",
        LimitKind::Edit => "change",
        LimitKind::Token => "token",
        LimitKind::Preview => "preview",
    };
    let plural = if limit == 1 { "" } else { "s" };
    let per = match window.as_secs() {
        60 => "per minute".to_owned(),
        3600 => "per hour".to_owned(),
        86_400 => "per day".to_owned(),
        _ => format!("within {}", humantime::format_duration(window)),
    };
    format!("{limit} {what}{plural} {per}")
}

fn rate_limited(kind: LimitKind, decision: &Decision) -> ApiError {
    let seconds = decision.retry_after_seconds();
    ApiError::after(
        Code::RateLimited,
        seconds,
        format!(
            "Limit reached: {}. Nothing was changed. Retry in {seconds} seconds.",
            quota_in_words(kind, decision.quota),
        ),
    )
}

/// Quotes the page's words, never the request's.
fn edit_advice(error: &TextEditError) -> String {
    let advice = match error {
        TextEditError::TooMany(count) => {
            return format!(
                "The field `edits` has {count} edits. Send at most {MAX_EDITS}, or replace all of `content`."
            );
        }
        TextEditError::EmptyOld { edit } => {
            format!("Edit {edit} has an empty `old`. Give it the words that it replaces.")
        }
        TextEditError::NotFound { edit, differs_in_white_space } => {
            let reason = if *differs_in_white_space { ": its white space or line breaks differ" } else { "" };
            format!(
                "The `old` of edit {edit} is not in the page's content{reason}. Copy `old` exactly from the Markdown that get_page returns."
            )
        }
        TextEditError::Ambiguous { edit, places: [first, second] } => format!(
            "The `old` of edit {edit} is in the page's content more than once: in {first:?} and in {second:?}. Give `old` more of the words around it, so that it occurs once."
        ),
        TextEditError::Overlap { edits: [first, second] } => {
            format!("Edits {first} and {second} change the same words. Join them into one edit.")
        }
    };
    format!("{advice} Nothing was changed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_in_the_order_of_its_declaration() {
        for (place, code) in Code::all().enumerate() {
            assert_eq!(code as usize, place, "{code:?}");
        }
        assert_eq!(Code::all().count(), Code::InvalidScope as usize + 1, "the last one declared is listed");
    }

    #[test]
    fn an_unavailable_service_says_in_the_log_what_refused() {
        let by = |error: ServiceError| ApiError::from(&error).refused_by;
        let failed = || std::io::Error::other("it is down").into();
        assert_eq!(by(ServiceError::CreatesPaused), Some("pause"));
        assert_eq!(by(ServiceError::Store(StoreError::Unavailable(failed()))), Some("store"));
        assert_eq!(by(ServiceError::Overloaded), Some("memory"));
        assert_eq!(by(ServiceError::NotFound), None, "its code says it");
    }

    #[test]
    fn a_405_names_its_methods_in_a_sentence() {
        let message = |allowed: &[&str]| ApiError::method_not_allowed(allowed).message;
        assert_eq!(message(&["POST"]), "Method not allowed here. Use POST.");
        assert!(message(&["GET", "HEAD"]).ends_with("Use GET or HEAD."));
        assert!(message(&["GET", "HEAD", "PATCH"]).ends_with("Use GET, HEAD or PATCH."));
    }
}
