//! Characters that show nothing.

use icu_properties::props::DefaultIgnorableCodePoint;
use icu_properties::{CodePointSetData, CodePointSetDataBorrowed};

/// Fonts show nothing for these.
static DEFAULT_IGNORABLE: CodePointSetDataBorrowed<'static> = CodePointSetData::new::<DefaultIgnorableCodePoint>();

/// Blank, but Unicode counts it neither as white space nor as ignorable.
const BLANK_BRAILLE: char = '\u{2800}';

/// A look into the set takes 11 ns.
const FIRST_IGNORABLE: char = '\u{ad}';

/// Whether `character` is invisible and takes no space.
pub fn is_ignorable(character: char) -> bool {
    character >= FIRST_IGNORABLE && DEFAULT_IGNORABLE.contains(character)
}

pub fn shows_nothing(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == BLANK_BRAILLE || is_ignorable(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_ignorable_character_comes_before_the_first() {
        assert!(DEFAULT_IGNORABLE.contains(FIRST_IGNORABLE));
        assert!(!('\0'..FIRST_IGNORABLE).any(|character| DEFAULT_IGNORABLE.contains(character)));
    }

    #[test]
    fn white_space_ignorable_characters_and_blank_braille_show_nothing() {
        for nothing in ["", " \t", "\u{200b}", "\u{2800}", "\u{3164}\u{115f}", "\u{ad}\u{feff}\u{e0001}\u{fe0f}"] {
            assert!(shows_nothing(nothing), "{nothing:?}");
        }
        for something in ["a", "\u{200b}a", "\u{301}", "\u{2801}", ".", "\u{fffd}"] {
            assert!(!shows_nothing(something), "{something:?}");
        }
    }
}
