//! An error's words for its caller: headers over REST, arguments over MCP.

use super::{ApiError, Code};
use crate::http::{metadata, request::MAX_BODY_BYTES};
use handbill_pages::ports::{page_store::StoreError, rate_limiter::LimitKind, renderer::RenderError};
use handbill_pages::service::{BodyError, BodyReadError, FormError, ServiceError, TokenError, oauth};
use handbill_pages::values::content::{ContentError, MAX_BYTES};
use handbill_pages::values::edit_key::{MIN_DIFFERENT_CHARS, NotANewKey, PREFIX, SECRET_CHARS};
use handbill_pages::values::quota::{Decision, Quota};
use handbill_pages::values::text_edits::{MAX_EDITS, TextEditError};

/// The end of a pause is unknown.
const RETRY_PAUSED_SECONDS: u64 = 300;

/// Each group of routes has clients that read errors in a form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// For people.
    Site,
    /// With the pages that explain it.
    Api,
    /// RFC 6749.
    Token,
    /// MCP.
    Tools,
}

impl Interface {
    const fn key_place(self) -> &'static str {
        match self {
            Self::Site | Self::Api | Self::Token => "in the header `Authorization: Bearer <edit_key>`",
            Self::Tools => "as the argument `edit_key`",
        }
    }

    const fn valid_body(self) -> &'static str {
        match self {
            Self::Site | Self::Api | Self::Token => {
                r#"JSON such as `{"title": "Hello", "content": "My *first* page."}`"#
            }
            Self::Tools => "one JSON-RPC message",
        }
    }

    /// For a page that has changed since the named state.
    const fn stale_advice(self) -> &'static str {
        match self {
            Self::Site | Self::Api | Self::Token => {
                "The page has changed since the version in `If-Match`. Nothing was changed: read the page again, apply your change to it and send its new `ETag`."
            }
            Self::Tools => {
                "The page has changed since `if_updated_at`. Nothing was changed: read the page again, apply your change to it and send its new `updated_at`."
            }
        }
    }

    /// Where to read more about keys.
    fn key_advice(self) -> String {
        match self {
            Self::Site | Self::Api | Self::Token => {
                format!(" `{}` describes how keys are presented.", metadata::path::PROTECTED_RESOURCE)
            }
            Self::Tools => String::new(),
        }
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
            ServiceError::NotAKey => Self::new(
                Code::InvalidKey,
                format!(
                    "This is not an edit key, which is `{PREFIX}` and {SECRET_CHARS} characters of `[0-9A-Za-z]`. Send the whole key and nothing else, {}. In an edit link it is the part after `#`.{}",
                    interface.key_place(),
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
                "No such page on this server. Check the slug: it is the last part of the page's URL, which begins with the address of this server.",
            ),
            ServiceError::Gone => Self::new(
                Code::Gone,
                "This page was removed: its author deleted it, or the operators of this service removed it. No other page will get its address; publish a new page instead.",
            ),
            ServiceError::PreconditionFailed => Self::new(Code::PreconditionFailed, interface.stale_advice()),
            ServiceError::StateExcluded => Self::new(
                Code::PreconditionFailed,
                "The page matches `If-None-Match`. Nothing was changed: read the page again, and send the change without that header if you still want it.",
            ),
            ServiceError::RateLimited { kind, decision, is_shared } => rate_limited(*kind, decision, *is_shared),
            ServiceError::ContentRefused => Self::new(
                Code::ContentRefused,
                "The field `content` contains a text or a link that the operators of this service do not publish. Nothing was changed. Remove it, or ask the operators if you think that this is a mistake.",
            ),
            ServiceError::KeyInUse => Self::new(
                Code::KeyInUse,
                "A page with this `edit_key` and such a title exists or existed, and it is not the one that was sent. Nothing was published. Make a new key for a new page, or update the page with its key.",
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

    pub(super) fn of_body(error: &BodyError, interface: Interface) -> Self {
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
            BodyError::Field(error) => invalid(&error.advice),
            BodyError::NoTitle => invalid(
                "The page has no title. Send the field `title`, or `?title=…` in the address, or begin the text with a heading such as `# My page`.",
            ),
            BodyError::FoundTitle(error) => invalid(format!(
                "No title was sent, and the one that was found, in the text's heading or the file's name, cannot be one: {error}. Send the field `title`, or `?title=…` in the address."
            )),
            BodyError::Content(ContentError::Empty) => Self::new(
                Code::EmptyContent,
                "The `content` of a page must not be empty, not even after `edits`. Send at least one character of Markdown, or leave the field out of an update to keep the content.",
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

/// Messages of the token endpoint are also the `error_description`: printable ASCII without quotation mark and backslash
/// (RFC 6749 §5.2).
impl From<&TokenError> for ApiError {
    fn from(error: &TokenError) -> Self {
        match error {
            TokenError::Form(error) => error.into(),
            TokenError::Service(error) => Self::of(error, Interface::Api),
            TokenError::UnsupportedGrant => Self::new(
                Code::UnsupportedGrantType,
                format!("The field `grant_type` names another grant. Send `grant_type={}`.", oauth::GRANT_TYPE),
            ),
            TokenError::NoClient => Self::new(
                Code::InvalidClient,
                format!(
                    "The client credentials are missing. Send the page's slug as `client_id` and its edit key as `client_secret`, in the form or by HTTP Basic; `{}` describes the endpoint.",
                    metadata::path::AUTHORIZATION_SERVER,
                ),
            ),
            TokenError::WrongClient => Self::new(
                Code::InvalidClient,
                format!(
                    "No page has these client credentials. Check that `client_id` is the slug of a page that exists, which is the last part of its URL, and `client_secret` its own edit key, which is `{PREFIX}` and {SECRET_CHARS} characters, and in an edit link the part after `#`. A lost key cannot be recovered. `{}` describes the endpoint.",
                    metadata::path::AUTHORIZATION_SERVER,
                ),
            ),
            TokenError::Scope => Self::new(
                Code::InvalidScope,
                format!(
                    "The field `scope` contains a scope other than `{}`. Leave it out, or send only these scopes.",
                    oauth::scope()
                ),
            ),
        }
    }
}

impl From<&FormError> for ApiError {
    fn from(error: &FormError) -> Self {
        let message = match error {
            FormError::Read(BodyReadError::TooLarge) => {
                return Self::new(
                    Code::BodyTooLarge,
                    format!(
                        "The request body may have at most {MAX_BODY_BYTES} bytes. Send `grant_type`, `client_id` and `client_secret` only."
                    ),
                );
            }
            FormError::Read(BodyReadError::ContentType) => {
                "The body is not declared as a form, so it was not read. Send a form, with the header `Content-Type: application/x-www-form-urlencoded`."
            }
            FormError::Read(error) => {
                let shared = Self::of_body(&BodyError::Read(*error), Interface::Api);
                let code = if shared.code == Code::InvalidBody { Code::InvalidRequest } else { shared.code };
                return Self { code, ..shared };
            }
            FormError::NotUtf8 => {
                "The form is not in UTF-8. Encode names and values in UTF-8, then percent-encode them."
            }
            FormError::InQuery => {
                "A credential is in the address, and addresses end up in logs and histories. Send `client_id` and `client_secret` in the form or by HTTP Basic only."
            }
            FormError::Repeated(Some(field)) => {
                return Self::new(Code::InvalidRequest, format!("The field `{field}` is there twice. Send it once."));
            }
            FormError::Repeated(None) => "A field or the header `Authorization` is there twice. Send each once.",
            FormError::TwoMethods => {
                "Client credentials are presented in two ways. Send them either as the fields `client_id` and `client_secret` or in the header `Authorization`, not both."
            }
            FormError::NoGrantType => {
                return Self::new(
                    Code::InvalidRequest,
                    format!("The field `grant_type` is missing. Send `grant_type={}`.", oauth::GRANT_TYPE),
                );
            }
        };
        Self::new(Code::InvalidRequest, message)
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

fn rate_limited(kind: LimitKind, decision: &Decision, is_shared: bool) -> ApiError {
    let seconds = decision.retry_after_seconds();
    let together = if is_shared { ", for all clients of your network together" } else { "" };
    ApiError::after(
        Code::RateLimited,
        seconds,
        format!(
            "Limit reached: {}{together}. Nothing was changed. Retry in {seconds} seconds.",
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
            format!("The field `edits[{edit}].old` is empty. Give it the words that the edit replaces.")
        }
        TextEditError::NotFound { edit, differs_in_white_space } => {
            let reason = if *differs_in_white_space { ": its white space or line breaks differ" } else { "" };
            format!(
                "The `old` of `edits[{edit}]` is not in the page's content{reason}. Copy `old` exactly from the page's `content`."
            )
        }
        TextEditError::Ambiguous { edit, places: [first, second] } => format!(
            "The `old` of `edits[{edit}]` is in the page's content more than once: on line {} in {:?} and on line {} in {:?}. Give `old` more of the words around it, so that it occurs once.",
            first.line, first.words, second.line, second.words,
        ),
        TextEditError::Overlap { edits: [first, second] } => {
            format!("`edits[{first}]` and `edits[{second}]` change the same words. Join them into one edit.")
        }
    };
    format!("{advice} Nothing was changed.")
}
