//! Placeholders for characters that the parser must not read as markup.
//!
//! U+FDD0 to U+FDD8 will never be assigned (Unicode §23.7), so they have no other meaning in a text. [`super::source`]
//! puts them in, and the originals are put back after the parser. U+FDD2 to U+FDD5 are not used. The parser also makes
//! these characters of references, such as `&#xFDD0;`, which are no placeholders.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag};

/// Replaces the `[` at the beginning of a footnote's definition, so that the parser reads it as text.
pub(super) const LITERAL_BRACKET: char = '\u{fdd0}';

/// Stands before a character that must be text: a `<`, or a marker of a list or quote that is too far right. The
/// placeholder is removed after the parser.
pub(super) const LITERAL_MARKER: char = '\u{fdd1}';

/// Whether `character` is reserved for placeholders, so that it must not be copied from content.
pub(super) fn is_reserved(character: char) -> bool {
    matches!(character, '\u{fdd0}'..='\u{fdd8}')
}

pub(super) fn literal_delimiter(delimiter: char) -> Option<char> {
    match delimiter {
        '*' => Some('\u{fdd6}'),
        '_' => Some('\u{fdd7}'),
        '~' => Some('\u{fdd8}'),
        _ => None,
    }
}

/// The parser's events for `source`. References to reserved characters mean U+FFFD, as the characters themselves do.
pub(super) fn events(source: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    let has_references = refers_to_reserved(source);
    Parser::new_ext(source, Options::ENABLE_STRIKETHROUGH).into_offset_iter().map(move |(mut event, range)| {
        match &mut event {
            // The text of a reference is an event of its own, and no part of the source; an address with a reference is a
            // copy. If that has placeholders besides, they become U+FFFD too.
            Event::Start(Tag::Link { dest_url: text, .. } | Tag::Image { dest_url: text, .. }) | Event::Text(text)
                if has_references && !matches!(text, CowStr::Borrowed(_)) =>
            {
                *text = text.replace(is_reserved, "\u{fffd}").into();
            }
            _ => {}
        }
        (event, range)
    })
}

/// Whether `source` has a reference to a reserved character.
fn refers_to_reserved(source: &str) -> bool {
    source.split("&#").skip(1).any(|rest| {
        let (radix, rest) = rest.strip_prefix(['x', 'X']).map_or((10, rest), |rest| (16, rest));
        let number = rest.split_once(';').and_then(|(digits, _)| u32::from_str_radix(digits, radix).ok());
        number.and_then(char::from_u32).is_some_and(is_reserved)
    })
}

/// The original of `character` if that is a placeholder.
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

pub(super) fn restored(text: &str) -> Cow<'_, str> {
    // 0xEF is the first byte of each placeholder.
    if !text.as_bytes().contains(&0xef) || !text.contains(is_reserved) {
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
