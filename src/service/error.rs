//! Why an operation was not done: one variant for each thing that a caller can do differently.

use thiserror::Error;

use super::token::TokenError;
use crate::domain::content::ContentError;
use crate::domain::quota::Decision;
use crate::domain::title::TitleError;
use crate::ports::page_store::StoreError;

/// Why an operation was not done.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The body does not hold a valid request.
    #[error("the body is not valid: {0}")]
    Body(#[from] BodyError),
    /// No key was presented.
    #[error("no edit key was presented")]
    MissingKey,
    /// What was presented is not the page's key.
    #[error("the edit key is not that of the page")]
    InvalidKey,
    /// A key was presented in the query string, where logs and histories keep it.
    #[error("an edit key was presented in the query string")]
    KeyInQuery,
    /// No page ever had this slug.
    #[error("no page has this slug")]
    NotFound,
    /// The page was deleted.
    #[error("the page was deleted")]
    Gone,
    /// The page is in another state than the caller requires.
    #[error("the page is in another state than required")]
    PreconditionFailed,
    /// The page is in a state that the caller excludes.
    #[error("the page is in a state that the request excludes")]
    StateExcluded,
    /// The client is over its limit.
    #[error("the client is over its limit")]
    RateLimited(Decision),
    /// The token endpoint gives no token.
    #[error("no token is given: {0}")]
    Token(#[from] TokenError),
    /// A store failed. Whether a change was made, the cause tells; none was made in part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operation took too long. A change may or may not have been made, none in part.
    #[error("the operation took longer than its deadline")]
    DeadlinePassed,
    /// Too many large pages are being read at once. Nothing was done.
    #[error("too many large pages are being read at once")]
    Overloaded,
    /// No free slug was found in as many attempts as are made.
    #[error("no free slug was found")]
    NoFreeSlug,
}

/// Why a body does not hold a valid request.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    /// It is larger than any request may be.
    #[error("the body is too large")]
    TooLarge,
    /// It did not arrive in time.
    #[error("the body did not arrive in time")]
    TimedOut,
    /// There is no memory left for it.
    #[error("there is no room for the body")]
    NoRoom,
    /// The connection broke before its end.
    #[error("the body broke off")]
    BrokenOff,
    /// Its `Content-Type` is not JSON.
    #[error("its content type is not JSON")]
    ContentType,
    /// It has a `Content-Encoding`.
    #[error("it is encoded")]
    ContentEncoding,
    /// It is not JSON of the right shape; the text says what is wrong with it and quotes nothing of its values.
    #[error("{0}")]
    Malformed(String),
    /// What stands in the place of the edit key is no text.
    #[error("the edit key is no text")]
    KeyType,
    /// Its title is not a title.
    #[error(transparent)]
    Title(TitleError),
    /// Its content is not content.
    #[error(transparent)]
    Content(ContentError),
    /// Its content is `null`, which means nothing here.
    #[error("the content is null")]
    NullContent,
    /// The named field holds the key that authorises the request, which publishing would give away.
    #[error("the {0} contains the page's edit key")]
    HoldsKey(&'static str),
}
