//! Characters that stand for others, or for nothing, where the parser must not read these as markup.
//!
//! U+FDD0 to U+FDD8 never will be assigned (Unicode §23.7), so they say nothing else in a text. [`super::source`] puts
//! them in, and whatever leaves the parser gets the originals back. [`super::html`] has U+FDD2 to U+FDD5 for itself.

use std::borrow::Cow;

/// Stands for the `[` that begins a footnote's definition, so that the parser takes it for text.
pub(super) const LITERAL_BRACKET: char = '\u{fdd0}';

/// Stands for nothing, beside what must be text: a marker of a list or quote too far right, a `<`.
pub(super) const LITERAL_MARKER: char = '\u{fdd1}';

/// Whether `character` is kept for us, so that it must not be taken over from content.
pub(super) fn is_reserved(character: char) -> bool {
    matches!(character, '\u{fdd0}'..='\u{fdd8}')
}

/// What stands for `delimiter`, a character of emphasis or strikethrough.
pub(super) fn literal_delimiter(delimiter: char) -> Option<char> {
    match delimiter {
        '*' => Some('\u{fdd6}'),
        '_' => Some('\u{fdd7}'),
        '~' => Some('\u{fdd8}'),
        _ => None,
    }
}

/// What `character` stands for, if it stands for something else.
pub(super) fn original(character: char) -> Option<&'static str> {
    match character {
        LITERAL_BRACKET => Some("["),
        LITERAL_MARKER => Some(""),
        '\u{fdd6}' => Some("*"),
        '\u{fdd7}' => Some("_"),
        '\u{fdd8}' => Some("~"),
        _ => None,
    }
}

/// `text` with the originals in the places of what stands for them.
pub(super) fn restored(text: &str) -> Cow<'_, str> {
    if !text.contains(is_reserved) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match original(character) {
            Some(original) => out.push_str(original),
            None => out.push(character),
        }
    }
    Cow::Owned(out)
}
