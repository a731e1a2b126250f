//! The title of a page.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::plain_text::shows_nothing;

/// Unicode scalar values (spec §8 says "characters").
pub const MAX_CHARS: usize = 200;

/// Looking at 128 KB of invisible characters takes a millisecond.
const MAX_BYTES: usize = 4096;

/// Shows something; nothing in it breaks its line or the direction of text after it.
///
/// A stored title is not checked again, so that a lower limit leaves older pages readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TitleError {
    /// Empty, or shows nothing. On an update this clears the title.
    #[error("the title is empty")]
    Empty,
    #[error("the title has {chars} characters, {MAX_CHARS} are allowed")]
    TooLong { chars: usize },
    #[error("the title contains the control character U+{:04X}", u32::from(*.0))]
    ControlCharacter(char),
    #[error("the title contains the bidirectional control U+{:04X}", u32::from(*.0))]
    BidirectionalControl(char),
    #[error("the title contains the line separator U+{:04X}", u32::from(*.0))]
    LineSeparator(char),
}

impl Title {
    pub fn parse(text: &str) -> Result<Self, TitleError> {
        let text = text.trim();
        if text.len() > MAX_BYTES {
            return Err(TitleError::TooLong { chars: text.chars().count() });
        }
        if let Some(error) = text.chars().find_map(refused) {
            return Err(error);
        }
        if shows_nothing(text) {
            return Err(TitleError::Empty);
        }
        match text.chars().count() {
            0..=MAX_CHARS => Ok(Self(text.to_owned())),
            chars => Err(TitleError::TooLong { chars }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TitleError {
    /// For the client that sent the field `title`.
    pub fn advice(self) -> String {
        match self {
            Self::Empty => format!("`title` is empty. Use 1 to {MAX_CHARS} visible characters."),
            Self::TooLong { .. } => {
                format!("The field `title` is too long: {self}. Shorten it to {MAX_CHARS} characters.")
            }
            Self::ControlCharacter(_) => format!(
                "The field `title` is not valid: {self}. Leave out line breaks, tabs and other control characters."
            ),
            Self::BidirectionalControl(_) => format!(
                "The field `title` is not valid: {self}. Leave out embeddings, overrides and isolates; the marks U+200E, U+200F and U+061C may stay."
            ),
            Self::LineSeparator(_) => {
                format!("The field `title` is not valid: {self}. Write the title on one line.")
            }
        }
    }
}

/// The marks U+200E, U+200F and U+061C and the joiners are allowed, because their effect ends with the title.
fn refused(character: char) -> Option<TitleError> {
    match character {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some(TitleError::BidirectionalControl(character)),
        '\u{2028}' | '\u{2029}' => Some(TitleError::LineSeparator(character)),
        _ if character.is_control() => Some(TitleError::ControlCharacter(character)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_of_too_many_bytes_is_too_long_whatever_they_are() {
        for character in ["\u{200b}", "\u{7}", "\u{202e}", "a"] {
            let chars = MAX_BYTES / character.len() + 1;
            assert_eq!(Title::parse(&character.repeat(chars)), Err(TitleError::TooLong { chars }), "{character:?}");
        }
        assert_eq!(Title::parse(&"\u{200b}".repeat(MAX_CHARS)), Err(TitleError::Empty));
        assert!(Title::parse(&"\u{10000}".repeat(MAX_CHARS)).is_ok());
    }
}
