//! A page's title.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest title accepted, in Unicode scalar values (spec §8 says "characters").
pub const MAX_CHARS: usize = 200;

/// A title of 1 to [`MAX_CHARS`] characters, without white space around it or control characters in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title(String);

/// Why a text is not a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TitleError {
    /// Nothing is left once white space around it is dropped. On an update this clears the title.
    #[error("the title is empty")]
    Empty,
    /// More than [`MAX_CHARS`] characters.
    #[error("the title has {chars} characters, {MAX_CHARS} are allowed")]
    TooLong {
        /// How many it has after trimming.
        chars: usize,
    },
    /// A control character, such as a line break or a tab.
    #[error("the title contains the control character U+{:04X}", u32::from(*.0))]
    ControlCharacter(char),
}

impl Title {
    /// Trims `text`, then checks and counts it.
    pub fn parse(text: &str) -> Result<Self, TitleError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TitleError::Empty);
        }
        if let Some(control) = text.chars().find(|c| c.is_control()) {
            return Err(TitleError::ControlCharacter(control));
        }
        match text.chars().count() {
            0..=MAX_CHARS => Ok(Self(text.to_owned())),
            chars => Err(TitleError::TooLong { chars }),
        }
    }

    /// The title's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_trimmed_then_counted_in_scalar_values() {
        let longest = "é".repeat(MAX_CHARS);
        assert_eq!(Title::parse(&format!("  {longest}\n")).unwrap().as_str(), longest);
        assert_eq!(Title::parse(&"é".repeat(201)), Err(TitleError::TooLong { chars: 201 }));
    }

    #[test]
    fn white_space_alone_is_an_empty_title() {
        assert_eq!(Title::parse(" \t\u{3000}\n"), Err(TitleError::Empty));
    }

    #[test]
    fn a_control_character_inside_a_title_is_refused_and_named() {
        let error = Title::parse("a\nb").unwrap_err();
        assert_eq!(error.to_string(), "the title contains the control character U+000A");
    }
}
