//! A page's title.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::invisible::shows_nothing;

/// Longest title accepted, in Unicode scalar values (spec §8 says "characters").
pub const MAX_CHARS: usize = 200;

/// A title of 1 to [`MAX_CHARS`] characters that shows something. It has no white space around it and no characters
/// that break its line or change the direction of the text after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title(String);

/// Why a text is not a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TitleError {
    /// The text is empty or shows nothing. On an update this clears the title.
    #[error("the title is empty")]
    Empty,
    /// More than [`MAX_CHARS`] characters.
    #[error("the title has {chars} characters, {MAX_CHARS} are allowed")]
    TooLong {
        /// The number of characters after trimming.
        chars: usize,
    },
    /// A control character, such as a line break or a tab.
    #[error("the title contains the control character U+{:04X}", u32::from(*.0))]
    ControlCharacter(char),
    /// A bidirectional embedding, override or isolate, which reverses text beyond the title.
    #[error("the title contains the bidirectional control U+{:04X}", u32::from(*.0))]
    BidirectionalControl(char),
    #[error("the title contains the line separator U+{:04X}", u32::from(*.0))]
    LineSeparator(char),
}

impl Title {
    /// Trims `text`, then checks and counts it.
    pub fn parse(text: &str) -> Result<Self, TitleError> {
        let text = text.trim();
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

    /// The title that a store has kept. It is not checked again, so that a lower limit leaves older pages readable.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why `character` may not be in a title; `None` if it may. The marks U+200E, U+200F and U+061C and the joiners are
/// allowed, because scripts need them and their effect ends with the title.
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
    fn a_title_is_trimmed_then_counted_in_scalar_values() {
        let longest = "é".repeat(MAX_CHARS);
        assert_eq!(Title::parse(&format!("  {longest}\n")).unwrap().as_str(), longest);
        let chars = MAX_CHARS + 1;
        assert_eq!(Title::parse(&"é".repeat(chars)), Err(TitleError::TooLong { chars }));
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

    #[test]
    fn white_space_around_a_title_may_break_lines() {
        assert_eq!(Title::parse("\u{2028}\n a \u{2029}").unwrap().as_str(), "a");
    }

    #[test]
    fn what_turns_the_direction_or_breaks_the_line_is_refused_even_where_nothing_else_shows() {
        assert_eq!(Title::parse("a\u{202e}b"), Err(TitleError::BidirectionalControl('\u{202e}')));
        assert_eq!(Title::parse("\u{2069}"), Err(TitleError::BidirectionalControl('\u{2069}')));
        assert_eq!(Title::parse("a\u{2029}b"), Err(TitleError::LineSeparator('\u{2029}')));
        assert_eq!(Title::parse("a\u{200f}\u{200e}\u{61c}\u{200d}b").unwrap().as_str().chars().count(), 6);
    }

    #[test]
    fn a_title_that_shows_nothing_is_empty_however_long() {
        assert_eq!(Title::parse(&"\u{200b}\u{2800}".repeat(200)), Err(TitleError::Empty));
    }
}
