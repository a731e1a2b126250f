//! What a client chooses of a page besides its text: today its title.
//!
//! A function that must know each field destructures the whole struct, so the compiler asks there when a field comes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::title::{Title, TitleError};

/// Members of a stored object that this version does not know.
pub type UnknownMembers = Map<String, Value>;

/// The title is `None` if an update cleared it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Title>,
    #[serde(flatten)]
    pub unknown: UnknownMembers,
}

/// The fields of a request, unchecked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetailsInput {
    pub title: Patch<String>,
}

/// The fields of a request, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetailsPatch {
    pub title: Patch<Title>,
}

/// What a request says of one field: nothing, `null`, or a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    #[default]
    Keep,
    Clear,
    Set(T),
}

/// What is wrong with one field, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub field: &'static str,
    pub advice: String,
}

impl Details {
    pub fn with_title(title: Title) -> Self {
        Self { title: Some(title), ..Self::default() }
    }

    /// As people read it.
    pub fn title(&self) -> Option<&str> {
        self.title.as_ref().map(Title::as_str)
    }

    /// Each text that people read, with its field: the page's key and what operators refuse may stand in none.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { title, unknown: _ } = self;
        [("title", title.as_ref().map(Title::as_str))].into_iter().filter_map(|(field, text)| Some((field, text?)))
    }

    /// For details that no request brought.
    pub fn check(&self) -> Result<(), FieldError> {
        let Self { title, unknown: _ } = self;
        title.as_ref().map_or(Ok(()), |title| Title::parse(title.as_str()).map(drop).map_err(FieldError::title))
    }
}

impl DetailsInput {
    /// Each text that was sent.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let Self { title } = self;
        [title].map(Patch::text).into_iter()
    }

    pub fn check(self) -> Result<DetailsPatch, FieldError> {
        let Self { title } = self;
        let title = match title {
            Patch::Keep => Patch::Keep,
            Patch::Clear => Patch::Clear,
            Patch::Set(text) => match Title::parse(&text) {
                Ok(title) => Patch::Set(title),
                Err(TitleError::Empty) => Patch::Clear,
                Err(error) => return Err(FieldError::title(error)),
            },
        };
        Ok(DetailsPatch { title })
    }
}

impl DetailsPatch {
    pub fn apply(&self, to: &mut Details) {
        let Self { title } = self;
        let Details { title: kept, unknown: _ } = to;
        title.clone().apply(kept);
    }

    /// Any field that was sent is a change, even to the same value.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl<T> Patch<T> {
    pub fn apply(self, to: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *to = None,
            Self::Set(value) => *to = Some(value),
        }
    }

    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Patch<U> {
        match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(map(value)),
        }
    }

    /// The value of a field that a new page needs.
    pub fn required(self, field: &'static str) -> Result<T, FieldError> {
        let advice = match self {
            Self::Set(value) => return Ok(value),
            Self::Keep => format!("The field `{field}` is missing. Send it as a string."),
            Self::Clear => format!("The field `{field}` is null, but a new page needs it. Send it as a string."),
        };
        Err(FieldError { field, advice })
    }

    pub fn as_set(&self) -> Option<&T> {
        if let Self::Set(value) = self { Some(value) } else { None }
    }
}

impl Patch<String> {
    /// For a form; empty if no text was sent.
    pub fn text(&self) -> &str {
        self.as_set().map_or("", String::as_str)
    }
}

/// For what cannot be `null`.
impl<T> From<Option<T>> for Patch<T> {
    fn from(sent: Option<T>) -> Self {
        sent.map_or(Self::Keep, Self::Set)
    }
}

impl FieldError {
    pub fn title(error: TitleError) -> Self {
        Self { field: "title", advice: error.advice() }
    }
}
