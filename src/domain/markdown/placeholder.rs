//! Placeholders for characters that the parser must not read as markup.
//!
//! U+FDD0 to U+FDD8 will never be assigned (Unicode §23.7), so they have no other meaning in a text. [`super::source`]
//! puts them in, and the originals are put back after the parser. U+FDD2 to U+FDD5 are not used. The parser also makes
//! these characters of references, such as `&#xFDD0;`, which are no placeholders.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::ops::Range;

use pulldown_cmark::{CowStr, Event, Tag};

/// Replaces the `[` at the beginning of a footnote's definition, so that the parser reads it as text.
pub(super) const LITERAL_BRACKET: char = '\u{fdd0}';

/// Stands before a character that must be text: a `<`, or a marker of a list or quote that is too far right. The
/// placeholder is removed after the parser.
pub(super) const LITERAL_MARKER: char = '\u{fdd1}';

/// Whether `character` is reserved for placeholders, so that it must not be copied from content.
pub(super) fn is_reserved(character: char) -> bool {
    matches!(character, '\u{fdd0}'..='\u{fdd8}')
}

/// The placeholder for `delimiter`, a character of emphasis or strikethrough.
pub(super) fn literal_delimiter(delimiter: char) -> Option<char> {
    match delimiter {
        '*' => Some('\u{fdd6}'),
        '_' => Some('\u{fdd7}'),
        '~' => Some('\u{fdd8}'),
        _ => None,
    }
}

/// `events` of `source`, in which a reference to a reserved character means U+FFFD, as the character itself does.
pub(super) fn without_reserved_references<'a>(
    source: &'a str,
    events: impl Iterator<Item = (Event<'a>, Range<usize>)>,
) -> impl Iterator<Item = (Event<'a>, Range<usize>)> {
    let refers = LazyCell::new(move || refers_to_reserved(source));
    let replaced = |text: &CowStr<'_>| CowStr::from(text.replace(is_reserved, "\u{fffd}"));
    events.map(move |(mut event, range)| {
        match &mut event {
            // The text of a reference is an event of its own.
            Event::Text(text)
                if text.contains(is_reserved)
                    && source[range.clone()].starts_with('&')
                    && **text != source[range.clone()] =>
            {
                *text = replaced(text);
            }
            // An address with a reference is a copy. It may have placeholders besides, and they become U+FFFD too.
            Event::Start(Tag::Link { dest_url: url, .. } | Tag::Image { dest_url: url, .. })
                if !matches!(url, CowStr::Borrowed(_)) && url.contains(is_reserved) && *refers =>
            {
                *url = replaced(url);
            }
            _ => {}
        }
        (event, range)
    })
}

/// Whether `source` has a reference to a reserved character.
fn refers_to_reserved(source: &str) -> bool {
    source.split("&#").skip(1).any(|rest| {
        let (radix, digits) = rest.strip_prefix(['x', 'X']).map_or((10, rest), |digits| (16, digits));
        let end = digits.find(|digit: char| !digit.is_digit(radix)).unwrap_or(digits.len());
        u32::from_str_radix(&digits[..end], radix).ok().and_then(char::from_u32).is_some_and(is_reserved)
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

/// `text` with its placeholders replaced by the originals.
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
