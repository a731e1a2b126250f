//! Characters that show nothing.

use icu_properties::props::DefaultIgnorableCodePoint;
use icu_properties::{CodePointSetData, CodePointSetDataBorrowed};

/// Shown as nothing where a font does not support them, and by themselves nowhere: joiners, fillers, variation selectors.
static DEFAULT_IGNORABLE: CodePointSetDataBorrowed<'static> = CodePointSetData::new::<DefaultIgnorableCodePoint>();

/// Braille with no dot: neither white space nor ignorable to Unicode, and blank.
const BLANK_BRAILLE: char = '\u{2800}';

/// Whether `character` takes no space and leaves no trace between others.
pub fn is_ignorable(character: char) -> bool {
    DEFAULT_IGNORABLE.contains(character)
}

/// Whether `text` shows nothing: white space, ignorable characters and blanks alone.
pub fn shows_nothing(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == BLANK_BRAILLE || is_ignorable(c))
}

#[cfg(test)]
mod tests {
    use super::*;

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
