//! A request's parts, passed unchecked by a transport, because other checks come first.

use std::sync::Arc;

use crate::values::content::{Content, ContentError};
use crate::values::edit_key::{EditKey, EditKeyHash, NotANewKey};
use crate::values::page::{HeadChanges, PageState};
use crate::values::text_edits::{MAX_EDITS, TextEdit, TextEditError};
use crate::values::timestamp::UnixMillis;
use crate::values::title::{Title, TitleError};

use super::error::{BodyError, ServiceError};

pub type Body<T> = Result<T, BodyError>;

/// For a create, a preview or an update. `None` was not sent, and `Some(None)` is `null`.
#[derive(Clone, Debug, Default)]
pub struct PageFields {
    pub title: Option<Option<String>>,
    /// Without a title, the text's heading is the title, else this name, which may be empty.
    pub file_name: Option<String>,
    pub content: Option<Option<Arc<str>>>,
    pub edits: Option<Vec<TextEdit>>,
    pub if_updated_at: Option<String>,
    pub edit_key: Option<Result<EditKey, NotANewKey>>,
}

#[derive(Debug)]
pub(super) struct NewPage {
    pub(super) title: NewTitle,
    pub(super) content: Content,
    pub(super) edit_key: Option<EditKey>,
}

#[derive(Debug)]
pub(super) enum NewTitle {
    Given(Title),
    InText(String),
}

impl NewTitle {
    pub(super) fn or_heading(self, heading: Option<&str>) -> Result<Title, TitleError> {
        match self {
            Self::Given(title) => Ok(title),
            Self::InText(file_name) => Title::parse(heading.unwrap_or(&file_name)),
        }
    }
}

#[derive(Debug)]
pub(super) struct PageUpdate {
    pub(super) head: HeadChanges,
    pub(super) text: TextUpdate,
    if_updated_at: Option<UnixMillis>,
}

#[derive(Debug)]
pub(super) enum TextUpdate {
    Keep,
    Replace(Content),
    Edit(Vec<TextEdit>),
}

impl PageUpdate {
    /// Any sent field is a change, even to the same value.
    pub(super) fn is_empty(&self) -> bool {
        self.head == HeadChanges::default() && matches!(self.text, TextUpdate::Keep)
    }

    pub(super) fn check_state(&self, state: PageState) -> Result<(), ServiceError> {
        match self.if_updated_at {
            Some(required) if required != state.updated_at => Err(ServiceError::PreconditionFailed),
            _ => Ok(()),
        }
    }
}

/// Proves that a request may change a page.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The query has a key, whatever else the request has.
    InQuery,
    Missing,
    Malformed,
    /// An edit link, where only its key is taken.
    Link,
    WrongType,
    Key(EditKey),
}

impl Credential {
    /// The key, if it is the one with this hash.
    pub(super) fn open(&self, key_hash: EditKeyHash) -> Result<&EditKey, ServiceError> {
        match self {
            Self::InQuery => Err(ServiceError::KeyInQuery),
            Self::Missing => Err(ServiceError::MissingKey),
            Self::Key(key) if key_hash.matches(key) => Ok(key),
            Self::Malformed | Self::Key(_) => Err(ServiceError::InvalidKey),
            Self::Link => Err(ServiceError::LinkForKey),
            Self::WrongType => Err(BodyError::KeyType.into()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum States {
    Any,
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    pub if_match: Option<States>,
    pub if_none_match: Option<States>,
}

impl Precondition {
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

impl PageFields {
    /// Checks sizes first.
    pub(super) fn check_new(self) -> Body<NewPage> {
        let Self { title, file_name, content, edit_key, edits: _, if_updated_at: _ } = self;
        let title = match (sent(title, "title").map(|title| Title::parse(&title)), file_name) {
            (Err(_) | Ok(Err(TitleError::Empty)), Some(file_name)) => Ok(NewTitle::InText(file_name)),
            (Ok(title), _) => title.map(NewTitle::Given).map_err(BodyError::Title),
            (Err(error), None) => Err(error),
        };
        let content = sent(content, "content");
        match (content.and_then(|content| Content::parse(content).map_err(BodyError::Content)), title) {
            (Err(too_large @ BodyError::Content(ContentError::TooLarge { .. })), _) => Err(too_large),
            (content, title) => {
                let title = title?;
                let content = content?;
                let edit_key = edit_key.transpose()?;
                if let Some(key) = &edit_key {
                    if let NewTitle::Given(title) = &title {
                        check_text(key, "title", title.as_str())?;
                    }
                    check_text(key, "content", content.as_str())?;
                }
                Ok(NewPage { title, content, edit_key })
            }
        }
    }

    pub(super) fn check_update(self, key: &EditKey) -> Body<PageUpdate> {
        let Self { title, content, edits, if_updated_at, file_name: _, edit_key: _ } = self;
        let text = match (content, edits) {
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
        let title = match title {
            None => None,
            Some(None) => Some(None),
            Some(Some(title)) => match Title::parse(&title) {
                Ok(title) => Some(Some(title)),
                Err(TitleError::Empty) => Some(None),
                Err(error) => return Err(BodyError::Title(error)),
            },
        };
        if let Some(Some(title)) = &title {
            check_text(key, "title", title.as_str())?;
        }
        let if_updated_at = match if_updated_at {
            Some(text) => Some(UnixMillis::parse(text.trim()).ok_or(BodyError::NoTimestamp)?),
            None => None,
        };
        if let TextUpdate::Replace(content) = &text {
            check_text(key, "content", content.as_str())?;
        }
        Ok(PageUpdate { head: HeadChanges { title }, text, if_updated_at })
    }
}

fn sent<T>(field: Option<Option<T>>, name: &'static str) -> Body<T> {
    field.ok_or(BodyError::Missing(name))?.ok_or(BodyError::Null(name))
}

pub(super) fn check_text(key: &EditKey, field: &'static str, text: &str) -> Body<()> {
    if key.occurs_in(text) { Err(BodyError::HoldsKey(field)) } else { Ok(()) }
}
