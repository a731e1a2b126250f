//! The reasons why an operation was not done: one variant for each thing that a caller can do differently.

use thiserror::Error;

use crate::ports::page_store::StoreError;
use crate::ports::rate_limiter::LimitKind;
use crate::ports::renderer::RenderError;
use crate::values::content::ContentError;
use crate::values::edit_key::NotANewKey;
use crate::values::quota::Decision;
use crate::values::text_edits::TextEditError;
use crate::values::title::TitleError;

/// Why an operation was not done.
#[derive(Debug, Error)]
pub enum ServiceError {
    #[error("the body is not valid: {0}")]
    Body(#[from] BodyError),
    #[error("no edit key was presented")]
    MissingKey,
    /// The presented text is not the page's key.
    #[error("the edit key is not that of the page")]
    InvalidKey,
    /// A key was presented in the query string, which logs and browser histories keep.
    #[error("an edit key was presented in the query string")]
    KeyInQuery,
    #[error("no page has this slug")]
    NotFound,
    #[error("the page was deleted")]
    Gone,
    #[error("the page is in another state than required")]
    PreconditionFailed,
    #[error("the page is in a state that the request excludes")]
    StateExcluded,
    #[error("the client is over its limit")]
    RateLimited(LimitKind, Decision),
    /// The slug that the client's key gives has a page with that key and other content, or a tombstone.
    #[error("a page with this key and title exists or existed")]
    KeyInUse,
    /// Operators do not publish this text, or pages with such links.
    #[error("operators do not publish this content")]
    ContentRefused,
    /// The list of what operators do not publish was never read.
    #[error("it is not known what operators do not publish")]
    BlocklistUnknown,
    #[error("creates are paused")]
    CreatesPaused,
    #[error("no token is given: {0}")]
    Token(#[from] TokenError),
    /// A store failed. The cause says whether a change may have been made; none is made in part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operation took too long. A change may or may not have been made, none in part.
    #[error("the operation took longer than its deadline")]
    DeadlinePassed,
    /// Too many large pages are being read at once. Nothing was done.
    #[error("too many large pages are being read at once")]
    Overloaded,
    /// The text was not rendered. Nothing was changed.
    #[error(transparent)]
    Rendering(#[from] RenderError),
    #[error("no free slug was found")]
    NoFreeSlug,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BodyReadError {
    /// The body is larger than any request may be.
    #[error("the body is too large")]
    TooLarge,
    #[error("the body did not arrive in time")]
    TimedOut,
    #[error("there is no memory left for the body")]
    NoRoom,
    /// The body comes in very many small chunks.
    #[error("the body comes in too many pieces")]
    InPieces,
    #[error("the connection broke before the end of the body")]
    BrokenOff,
    #[error("the body has another content type than expected")]
    ContentType,
    #[error("the body has a content encoding")]
    ContentEncoding,
}

#[derive(Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    #[error(transparent)]
    Read(#[from] BodyReadError),
    /// The body is not JSON of the right shape. The text says why and quotes no values.
    #[error("{0}")]
    Malformed(String),
    #[error("the edit key is not a string")]
    KeyType,
    /// A field that a page needs was not sent, or is `null`.
    #[error("the field {0} is missing")]
    Missing(&'static str),
    /// No title was sent, and the text has no heading to take one from.
    #[error("there is no title")]
    NoTitle,
    #[error(transparent)]
    Title(TitleError),
    /// The same of a title that was not sent but found: the text's heading, or the file's name.
    #[error("the title that was found cannot be one: {0}")]
    FoundTitle(TitleError),
    #[error(transparent)]
    Content(ContentError),
    /// The edits do not fit the page's content.
    #[error(transparent)]
    Edit(#[from] TextEditError),
    #[error("the body has both content and edits")]
    TwoTexts,
    #[error("the time of the last change is not a timestamp")]
    NoTimestamp,
    #[error("the content is null")]
    NullContent,
    /// The key that the client made is none.
    #[error("the new edit key is not valid: {0}")]
    NewKey(#[from] NotANewKey),
    /// The named field contains the key that authorises the request. Publishing it would give the key away.
    #[error("the {0} contains the page's edit key")]
    HoldsKey(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    #[error("the form is not valid: {0}")]
    Form(#[from] FormError),
    #[error("the grant is not supported")]
    UnsupportedGrant,
    #[error("no client credentials were presented")]
    NoClient,
    /// No page has these credentials: no page has the slug, the page was deleted, or the key is wrong.
    #[error("no page has these client credentials")]
    WrongClient,
    /// The request asks for a scope that does not exist.
    #[error("the scope goes beyond what there is")]
    Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    #[error(transparent)]
    Read(#[from] BodyReadError),
    /// The form is not UTF-8, before or after percent-decoding.
    #[error("the form is not UTF-8")]
    NotUtf8,
    /// A credential is in the query string, which logs and browser histories keep.
    #[error("a credential is in the query string")]
    InQuery,
    /// A field is there twice. The error names the field if it has a meaning here.
    #[error("a field is there twice")]
    Repeated(Option<&'static str>),
    #[error("credentials are presented in more than one way")]
    TwoMethods,
    #[error("the grant type is missing")]
    NoGrantType,
}
