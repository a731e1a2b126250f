//! A request's parts, passed unchecked by a transport, because other checks come first.

use std::sync::Arc;

use crate::values::content::{Content, ContentError};
use crate::values::details::{Details, DetailsInput, DetailsPatch, FieldError, Patch};
use crate::values::edit_key::{EditKey, EditKeyHash, NotANewKey, holds_key};
use crate::values::text_edits::{MAX_EDITS, TextEdit, TextEditError};
use crate::values::title::{Title, TitleError};
use crate::values::{head::PageState, timestamp::UnixMillis};

use super::error::{BodyError, ServiceError};

pub type Body<T> = Result<T, BodyError>;

/// For a create, a preview or an update.
#[derive(Clone, Debug, Default)]
pub struct PageFields {
    pub details: DetailsInput,
    /// Without a title, the text's heading is the title, else this name, which may be empty.
    pub file_name: Option<String>,
    pub content: Patch<Arc<str>>,
    pub edits: Option<Vec<TextEdit>>,
    pub if_updated_at: Option<String>,
    pub edit_key: Option<Result<EditKey, NotANewKey>>,
}

/// The fields of an update, which are taken after the credential was checked.
pub struct LateBody<F> {
    pub fields: F,
    /// The client sends them only when they are taken.
    pub is_awaited: bool,
}

#[derive(Debug)]
pub(super) struct NewPage {
    /// Without a title, it is to be found in the text, or is `file_name`.
    pub(super) details: Details,
    pub(super) file_name: String,
    pub(super) content: Content,
    pub(super) edit_key: Option<EditKey>,
}

impl NewPage {
    /// The title, which may be one of the text's headings.
    pub(super) fn title_or(&self, heading: Option<&str>) -> Result<Title, TitleError> {
        self.details.title.clone().map_or_else(|| Title::parse(heading.unwrap_or(&self.file_name)), Ok)
    }
}

#[derive(Debug)]
pub(super) struct PageUpdate {
    pub(super) details: DetailsPatch,
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
        self.details.is_empty() && matches!(self.text, TextUpdate::Keep)
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
            Self::Key(_) => Err(ServiceError::InvalidKey),
            Self::Malformed => Err(ServiceError::NotAKey),
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
        let Self { details, file_name, content, edit_key, edits: _, if_updated_at: _ } = self;
        let content = content.required("content").map_err(BodyError::Field);
        let content = content.and_then(|content| Content::parse(content).map_err(BodyError::Content));
        if let Err(error @ BodyError::Content(ContentError::TooLarge { .. })) = content {
            return Err(error);
        }
        let details = new_details(details, file_name.is_some())?;
        let content = content?;
        let edit_key = edit_key.transpose()?;
        if let Some(key) = &edit_key {
            check_details(key, &details)?;
            check_text(key, "content", content.as_str())?;
        }
        Ok(NewPage { details, file_name: file_name.unwrap_or_default(), content, edit_key })
    }

    pub(super) fn check_update(self, key: &EditKey) -> Body<PageUpdate> {
        let Self { details, content, edits, if_updated_at, file_name: _, edit_key: _ } = self;
        let text = match (content, edits) {
            (Patch::Keep, None) => TextUpdate::Keep,
            (Patch::Clear, None) => return Err(BodyError::NullContent),
            (Patch::Set(content), None) => TextUpdate::Replace(Content::parse(content).map_err(BodyError::Content)?),
            (Patch::Keep, Some(edits)) if edits.is_empty() => TextUpdate::Keep,
            (Patch::Keep, Some(edits)) if edits.len() > MAX_EDITS => {
                return Err(BodyError::Edit(TextEditError::TooMany(edits.len())));
            }
            (Patch::Keep, Some(edits)) => TextUpdate::Edit(edits),
            (Patch::Clear | Patch::Set(_), Some(_)) => return Err(BodyError::TwoTexts),
        };
        let details = details.check()?;
        let mut changed = Details::default();
        details.apply(&mut changed);
        check_details(key, &changed)?;
        let if_updated_at = match if_updated_at {
            Some(text) => Some(UnixMillis::parse(text.trim()).ok_or(BodyError::NoTimestamp)?),
            None => None,
        };
        if let TextUpdate::Replace(content) = &text {
            check_text(key, "content", content.as_str())?;
        }
        Ok(PageUpdate { details, text, if_updated_at })
    }
}

fn new_details(sent: DetailsInput, can_find_title: bool) -> Body<Details> {
    let without_title = sent.title.clone().required("title").err();
    let mut details = Details::default();
    sent.check()?.apply(&mut details);
    if details.title.is_none() && !can_find_title {
        return Err(without_title.unwrap_or_else(|| FieldError::title(TitleError::Empty)).into());
    }
    Ok(details)
}

fn check_details(key: &EditKey, details: &Details) -> Body<()> {
    details.texts().try_for_each(|(field, text)| check_text(key, field, text))
}

pub(super) fn check_text(key: &EditKey, field: &'static str, text: &str) -> Body<()> {
    if holds_key(text, key) { Err(BodyError::HoldsKey(field)) } else { Ok(()) }
}
