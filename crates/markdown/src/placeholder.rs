//! Placeholders for characters that the parser must not read as markup.
//!
//! U+FDD0 to U+FDD8 will never be assigned (Unicode §23.7). [`super::source`] inserts them, and the originals return
//! after the parser.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag};

/// Replaces the `[` that would define a footnote.
pub(super) const LITERAL_BRACKET: char = '\u{fdd0}';

/// Makes the next character text, and is removed after the parser.
pub(super) const LITERAL_MARKER: char = '\u{fdd1}';

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

/// References to reserved characters mean U+FFFD, like the characters themselves.
pub(super) fn events(source: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    let has_references = refers_to_reserved(source);
    Parser::new_ext(source, Options::ENABLE_STRIKETHROUGH).into_offset_iter().map(move |(mut event, range)| {
        match &mut event {
            // A reference is an event of its own, not borrowed from the source. An address with a reference is a copy.
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

fn refers_to_reserved(source: &str) -> bool {
    source.split("&#").skip(1).any(|rest| {
        let (radix, rest) = rest.strip_prefix(['x', 'X']).map_or((10, rest), |rest| (16, rest));
        let number = rest.split_once(';').and_then(|(digits, _)| u32::from_str_radix(digits, radix).ok());
        number.and_then(char::from_u32).is_some_and(is_reserved)
    })
}

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
    // Placeholders.
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
