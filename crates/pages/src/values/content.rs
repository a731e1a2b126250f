//! The Markdown of a page.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// UTF-8 (spec §8: 100 KB).
pub const MAX_BYTES: usize = 102_400;

/// White space alone is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(Arc<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ContentError {
    #[error("the content is empty")]
    Empty,
    #[error("the content has {bytes} bytes, {MAX_BYTES} are allowed")]
    TooLarge { bytes: usize },
}

impl Content {
    pub fn parse(markdown: impl Into<Arc<str>>) -> Result<Self, ContentError> {
        let markdown = markdown.into();
        match markdown.len() {
            0 => Err(ContentError::Empty),
            1..=MAX_BYTES => Ok(Self(markdown)),
            bytes => Err(ContentError::TooLarge { bytes }),
        }
    }

    /// Not checked again, so that a lower limit leaves older pages readable.
    pub fn from_stored(markdown: impl Into<Arc<str>>) -> Self {
        Self(markdown.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Lent<'a>(#[serde(borrow)] Cow<'a, str>);

        let Lent(text) = Lent::deserialize(deserializer)?;
        Ok(Self::from_stored(text))
    }
}
