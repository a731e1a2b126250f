//! The parts of a request as a transport passes them to the service, not yet checked.
//!
//! A transport must not refuse a body or a credential itself, because other checks come first.
//!
//! [`CreateFields`] and [`UpdateFields`] have the same fields as `api::types::CreatePage` and `UpdatePage`, which
//! describe the JSON. They are separate so that the service needs neither `serde` nor an OpenAPI schema.

use std::sync::Arc;

use crate::domain::content::{Content, ContentError};
use crate::domain::edit_key::EditKey;
use crate::domain::page::PageState;
use crate::domain::text_edits::{MAX_EDITS, TextEdit, TextEditError};
use crate::domain::timestamp::UnixMillis;
use crate::domain::title::{Title, TitleError};

use super::error::{BodyError, ServiceError};

/// The value in a body, or why there is none.
pub type Body<T> = Result<T, BodyError>;

/// The fields of a create or a preview.
#[derive(Clone, Debug)]
pub struct CreateFields {
    /// The title.
    pub title: TitleField,
    /// The Markdown source as it was sent.
    pub content: Arc<str>,
}

/// The title of a new page, as it was sent or already checked.
#[derive(Clone, Debug)]
pub enum TitleField<T = String> {
    /// This title was sent.
    Given(T),
    /// A heading is the title, else this name of the file, which may be empty. It is looked for after the limit.
    InText(String),
}

/// The fields of an update; a field that was not sent is `None`, one that was sent as `null` is `Some(None)`.
#[derive(Clone, Debug, Default)]
pub struct UpdateFields {
    /// The title as it was sent.
    pub title: Option<Option<String>>,
    /// The Markdown source as it was sent.
    pub content: Option<Option<String>>,
    /// Replacements of parts of the stored source, in place of a whole new source.
    pub edits: Option<Vec<TextEdit>>,
    /// The `updated_at` of the state that the update is for, as it was sent.
    pub if_updated_at: Option<String>,
}

/// An update whose fields were checked.
#[derive(Debug)]
pub(super) struct Update {
    /// The new title, `Some(None)` to clear it.
    pub(super) title: Option<Option<Title>>,
    /// The new source.
    pub(super) text: TextUpdate,
    /// The time of the last change of the state that the update is for.
    if_updated_at: Option<UnixMillis>,
}

/// How an update changes the source.
#[derive(Debug)]
pub(super) enum TextUpdate {
    /// The source stays.
    Keep,
    /// The source becomes this one.
    Replace(Content),
    /// Parts of the source are replaced.
    Edit(Vec<TextEdit>),
}

impl Update {
    /// Whether the update changes nothing. An update with any field is a change, even if the value stays the same.
    pub(super) fn is_empty(&self) -> bool {
        self.title.is_none() && matches!(self.text, TextUpdate::Keep)
    }

    /// Fails unless the page is in the state that the update is for.
    pub(super) fn check_state(&self, state: PageState) -> Result<(), ServiceError> {
        match self.if_updated_at {
            Some(required) if required != state.updated_at => Err(ServiceError::PreconditionFailed),
            _ => Ok(()),
        }
    }
}

/// The proof that a request may change a page.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The query string contains a key, whatever else the request has.
    InQuery,
    /// The request presents no credential.
    Missing,
    /// The presented text does not have the shape of a key.
    Malformed,
    /// The presented argument is not a string.
    WrongType,
    /// A well-formed key, right or wrong.
    Key(EditKey),
}

/// The states of a page that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum States {
    /// Any state.
    Any,
    /// One of these states.
    OneOf(Vec<PageState>),
}

impl States {
    fn include(&self, state: PageState) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(states) => states.contains(&state),
        }
    }
}

/// The condition that a request sets on the state of the page. The default sets no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    /// The page must be in one of these states.
    pub if_match: Option<States>,
    /// The page must be in none of these states.
    pub if_none_match: Option<States>,
}

impl Precondition {
    /// Fails unless `state` is as required.
    pub(super) fn check(&self, state: PageState) -> Result<(), ServiceError> {
        if self.if_match.as_ref().is_some_and(|required| !required.include(state)) {
            return Err(ServiceError::PreconditionFailed);
        }
        if self.if_none_match.as_ref().is_some_and(|excluded| excluded.include(state)) {
            return Err(ServiceError::StateExcluded);
        }
        Ok(())
    }
}

/// A title and a content that were checked.
pub(super) type Checked = (TitleField<Title>, Content);

impl CreateFields {
    /// The title and content of a new page. Size is checked before anything else.
    pub(super) fn check(self) -> Result<Checked, BodyError> {
        let title = match self.title {
            TitleField::Given(title) => Title::parse(&title).map(TitleField::Given).map_err(BodyError::Title),
            TitleField::InText(file_name) => Ok(TitleField::InText(file_name)),
        };
        match (Content::parse(self.content), title) {
            (Err(too_large @ ContentError::TooLarge { .. }), _) => Err(BodyError::Content(too_large)),
            (content, title) => Ok((title?, content.map_err(BodyError::Content)?)),
        }
    }
}

impl UpdateFields {
    /// The update that these fields ask for. Size is checked before anything else. `key` is the page's key, which may
    /// not be in any field.
    pub(super) fn check(self, key: &EditKey) -> Result<Update, BodyError> {
        let text = match (self.content, self.edits) {
            (None, None) => TextUpdate::Keep,
            (Some(None), None) => return Err(BodyError::NullContent),
            (Some(Some(content)), None) => TextUpdate::Replace(Content::parse(content).map_err(BodyError::Content)?),
            (None, Some(edits)) if edits.is_empty() => TextUpdate::Keep,
            (None, Some(edits)) if edits.len() > MAX_EDITS => {
                return Err(BodyError::Edit(TextEditError::TooMany(edits.len())));
            }
            (None, Some(edits)) => TextUpdate::Edit(edits),
            (Some(_), Some(_)) => return Err(BodyError::TwoTexts),
        };
        let title = match self.title {
            None => None,
            Some(None) => Some(None),
            Some(Some(title)) => match Title::parse(&title) {
                Ok(title) => Some(Some(title)),
                Err(TitleError::Empty) => Some(None),
                Err(error) => return Err(BodyError::Title(error)),
            },
        };
        if title.iter().flatten().any(|title| key.occurs_in(title.as_str())) {
            return Err(BodyError::HoldsKey("title"));
        }
        let if_updated_at = match self.if_updated_at {
            Some(text) => Some(UnixMillis::parse(text.trim()).ok_or(BodyError::NoTimestamp)?),
            None => None,
        };
        Ok(Update { title, text, if_updated_at })
    }
}
