//! Characters that show nothing.

use icu_properties::props::DefaultIgnorableCodePoint;
use icu_properties::{CodePointSetData, CodePointSetDataBorrowed};

/// Characters that show nothing by themselves: joiners, fillers, variation selectors. A font that does not support them
/// shows nothing either.
static DEFAULT_IGNORABLE: CodePointSetDataBorrowed<'static> = CodePointSetData::new::<DefaultIgnorableCodePoint>();

/// The Braille pattern without dots. It is blank, but Unicode counts it neither as white space nor as ignorable.
const BLANK_BRAILLE: char = '\u{2800}';

/// The first of them. Most characters of most texts come before it, and a look into the set takes 11 ns.
const FIRST_IGNORABLE: char = '\u{ad}';

/// Whether `character` is invisible and takes no space between others.
pub fn is_ignorable(character: char) -> bool {
    character >= FIRST_IGNORABLE && DEFAULT_IGNORABLE.contains(character)
}

/// Whether `text` shows nothing: it has only white space, ignorable characters and blanks.
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
