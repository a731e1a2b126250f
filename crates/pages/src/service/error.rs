//! Why an operation was not done: one variant for each thing that a caller can do differently.

use thiserror::Error;

use crate::ports::{page_store::StoreError, rate_limiter::LimitKind, renderer::RenderError};
use crate::values::{
    content::ContentError, details::FieldError, edit_key::NotANewKey, quota::Decision, text_edits::TextEditError,
    title::TitleError,
};

#[derive(Debug, Error)]
pub enum ServiceError {
    #[error("the body is not valid: {0}")]
    Body(#[from] BodyError),
    #[error("no edit key was presented")]
    MissingKey,
    #[error("the edit key is not that of the page")]
    InvalidKey,
    /// Such as an edit link, or a part of a key.
    #[error("what was presented is no edit key")]
    NotAKey,
    /// Logs and browser histories keep it.
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
    RateLimited {
        kind: LimitKind,
        decision: Decision,
        /// The full window counts a whole network.
        is_shared: bool,
    },
    /// The client's key and title name a tombstone, or a page with other content.
    #[error("a page with this key and title exists or existed")]
    KeyInUse,
    #[error("operators do not publish this content")]
    ContentRefused,
    #[error("it is not known what operators do not publish")]
    BlocklistUnknown,
    #[error("creates are paused")]
    CreatesPaused,
    /// The cause says whether a change may have been made, completely or not at all.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A change may have been made, completely or not at all.
    #[error("the operation took longer than its deadline")]
    DeadlinePassed,
    #[error("too many large pages are being read at once")]
    Overloaded,
    #[error(transparent)]
    Rendering(#[from] RenderError),
    #[error("no free slug was found")]
    NoFreeSlug,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BodyReadError {
    #[error("the body is too large")]
    TooLarge,
    #[error("the body did not arrive in time")]
    TimedOut,
    #[error("there is no memory left for the body")]
    NoRoom,
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
    /// Quotes no values.
    #[error("{0}")]
    Malformed(String),
    #[error("the edit key is not a string")]
    KeyType,
    #[error("the field {} is not valid", .0.field)]
    Field(FieldError),
    #[error("there is no title")]
    NoTitle,
    /// The title from the text's heading or the file's name.
    #[error("the title that was found cannot be one: {0}")]
    FoundTitle(TitleError),
    #[error(transparent)]
    Content(ContentError),
    #[error(transparent)]
    Edit(#[from] TextEditError),
    #[error("the body has both content and edits")]
    TwoTexts,
    #[error("the time of the last change is not a timestamp")]
    NoTimestamp,
    #[error("the content is null")]
    NullContent,
    #[error("the new edit key is not valid: {0}")]
    NewKey(#[from] NotANewKey),
    /// The named field would publish the request's key.
    #[error("the {0} contains the page's edit key")]
    HoldsKey(&'static str),
}

impl From<FieldError> for BodyError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

#[derive(Debug, Error)]
pub enum TokenError {
    #[error("the form is not valid: {0}")]
    Form(#[from] FormError),
    #[error("the grant is not supported")]
    UnsupportedGrant,
    #[error("no client credentials were presented")]
    NoClient,
    /// No page has the slug, the page was deleted, or the key is wrong.
    #[error("no page has these client credentials")]
    WrongClient,
    #[error("the scope goes beyond what there is")]
    Scope,
    #[error(transparent)]
    Service(#[from] ServiceError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    #[error(transparent)]
    Read(#[from] BodyReadError),
    #[error("the form is not UTF-8")]
    NotUtf8,
    #[error("a credential is in the query string")]
    InQuery,
    /// Named if the field has a meaning here.
    #[error("a field is there twice")]
    Repeated(Option<&'static str>),
    #[error("credentials are presented in more than one way")]
    TwoMethods,
    #[error("the grant type is missing")]
    NoGrantType,
}
