//! A page's Markdown source.

use std::sync::Arc;

use thiserror::Error;

/// Largest content accepted, in bytes of UTF-8 (spec §8: 100 KB).
pub const MAX_BYTES: usize = 102_400;

/// Markdown of 1 to [`MAX_BYTES`] bytes, kept byte for byte. White space alone is valid content. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(Arc<str>);

/// Why a text is not content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ContentError {
    #[error("the content is empty")]
    Empty,
    /// More than [`MAX_BYTES`] bytes.
    #[error("the content has {bytes} bytes, {MAX_BYTES} are allowed")]
    TooLarge {
        /// The length of the text in bytes.
        bytes: usize,
    },
}

impl Content {
    /// Checks the length of `markdown` and nothing else.
    pub fn parse(markdown: impl Into<Arc<str>>) -> Result<Self, ContentError> {
        let markdown = markdown.into();
        match markdown.len() {
            0 => Err(ContentError::Empty),
            1..=MAX_BYTES => Ok(Self(markdown)),
            bytes => Err(ContentError::TooLarge { bytes }),
        }
    }

    /// The source that a store has kept. It is not checked again, so that a lower limit leaves older pages readable.
    pub fn from_stored(markdown: impl Into<Arc<str>>) -> Self {
        Self(markdown.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_counted_in_bytes_of_utf_8() {
        assert!(Content::parse("é".repeat(51_200)).is_ok());
        let error = Content::parse("é".repeat(51_201)).unwrap_err();
        assert_eq!(error, ContentError::TooLarge { bytes: 102_402 });
    }

    #[test]
    fn white_space_alone_is_content_and_nothing_is_not() {
        assert_eq!(Content::parse(" \n".to_owned()).unwrap().as_str(), " \n");
        assert_eq!(Content::parse(String::new()), Err(ContentError::Empty));
    }
}
