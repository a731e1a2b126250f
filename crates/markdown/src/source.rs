//! Hides from the parser what must stay text, behind placeholders.
//!
//! U+FDD0 to U+FDD8 will never be assigned (Unicode §23.7). The originals return after the parser.

use std::{borrow::Cow, ops::Range};

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag};

/// Replaces the `[` that would define a footnote.
pub(super) const LITERAL_BRACKET: char = '\u{fdd0}';

/// Makes the next character text, and is removed after the parser.
pub(super) const LITERAL_MARKER: char = '\u{fdd1}';

/// A list or quote further right is text. The parser checks every open list and quote on every line: 50 KB of `- ` and
/// 50 KB of lines take 0.8 s.
const MARKER_COLUMNS: usize = 256;

/// The rest of a longer run would be scanned again from each character.
const MAX_DELIMITERS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spared {
    /// After `](` or `]:` at a line's end, `<` may begin an address.
    Addresses,
    Nothing,
}

/// Makes these constructs text:
///
/// * Definitions of footnotes, which the parser would drop as links' (contract decision 12).
/// * Markers of lists and quotes too far right.
/// * Raw HTML that would hide Markdown: at the beginning of a line unless `spared`, and comments anywhere.
/// * `*`, `_` and `~` within a bare address, because GitHub finds addresses before emphasis.
pub(super) fn prepare(markdown: &str, spared: Spared) -> String {
    let markdown = markdown.strip_prefix('\u{feff}').unwrap_or(markdown);
    let mut prepared = String::with_capacity(markdown.len() + markdown.len() / 8);
    let mut previous = "";
    let mut remaining = markdown;
    let has_returns = markdown.contains('\r');
    while !remaining.is_empty() {
        let line;
        let end = if has_returns { remaining.find(['\n', '\r']) } else { remaining.find('\n') };
        (line, remaining) = remaining.split_at(end.map_or(remaining.len(), |end| end + 1));
        let (start, is_too_far) = markers(line);
        let (start, mut rest) = line.split_at(start);
        prepared.push_str(start);
        if is_too_far || (begins_tag(rest) && !(spared == Spared::Addresses && awaits_address(previous))) {
            prepared.push(LITERAL_MARKER);
        } else if begins_footnote(rest) {
            prepared.push(LITERAL_BRACKET);
            rest = &rest["[".len()..];
        }
        push_line(rest, &mut prepared);
        if line != "\n" {
            previous = line;
        }
    }
    prepared
}

/// The bytes of white space and markers, and whether another marker is too far right.
fn markers(line: &str) -> (usize, bool) {
    let bytes = line.as_bytes();
    let rule = rule_start(bytes);
    let mut at = 0;
    let mut column = 0;
    loop {
        let length = match bytes.get(at) {
            Some(b' ') => 1,
            Some(b'\t') => {
                (at, column) = (at + 1, column / 4 * 4 + 4);
                continue;
            }
            // A thematic break looks like many empty lists.
            _ if at >= rule => 0,
            _ => marker_length(&bytes[at..]),
        };
        let is_too_far = length > 0 && bytes[at] != b' ' && column >= MARKER_COLUMNS;
        if length == 0 || is_too_far {
            return (at, is_too_far);
        }
        (at, column) = (at + length, column + length);
    }
}

fn marker_length(rest: &[u8]) -> usize {
    let length = match rest.first() {
        Some(b'>') => return 1,
        Some(b'-' | b'+' | b'*') => 1,
        Some(b'0'..=b'9') => {
            // CommonMark §5.2.
            let digits = rest.iter().take(10).take_while(|b| b.is_ascii_digit()).count();
            match rest.get(digits) {
                Some(b'.' | b')') if digits < 10 => digits + 1,
                _ => return 0,
            }
        }
        _ => return 0,
    };
    match rest.get(length) {
        None | Some(b' ' | b'\t' | b'\n' | b'\r') => length,
        Some(_) => 0,
    }
}

/// Or the line's length, if no thematic break ends it.
fn rule_start(line: &[u8]) -> usize {
    let mut start = line.len();
    let mut character = None;
    let mut count = 0;
    for (at, &byte) in line.iter().enumerate().rev() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'-' | b'*' if character.is_none_or(|c| c == byte) => {
                character = Some(byte);
                count += 1;
                start = at;
            }
            _ => break,
        }
    }
    if count < 3 {
        return line.len();
    }
    start
}

fn begins_footnote(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("[^") else { return false };
    let Some((label, after)) = rest.split_once(']') else { return false };
    !label.is_empty() && !label.contains(|c: char| c.is_whitespace() || c == '[') && after.starts_with(':')
}

fn begins_tag(text: &str) -> bool {
    text.strip_prefix('<').is_some_and(|rest| rest.starts_with(|c: char| c == '/' || c.is_ascii_alphabetic()))
}

fn awaits_address(line: &str) -> bool {
    let line = line.trim_end();
    line.ends_with("](") || line.ends_with("]:")
}

/// With the first byte of placeholders.
const MAY_BE_REPLACED: [bool; 256] = byte_set(b":<*_~\xef");

pub(super) const fn byte_set(bytes: &[u8]) -> [bool; 256] {
    let mut set = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        set[bytes[at] as usize] = true;
        at += 1;
    }
    set
}

fn push_line(line: &str, out: &mut String) {
    let bytes = line.as_bytes();
    // `*`, `_` and `~` before this position belong to an address.
    let mut address_end = 0;
    let mut copied = 0;
    let mut next = 0;
    while let Some(plain) = bytes[next..].iter().position(|&byte| MAY_BE_REPLACED[usize::from(byte)]) {
        let at = next + plain;
        let byte = bytes[at];
        next = at + 1;
        let (end, placeholder) = match byte {
            b':' if at >= address_end && bytes[at + 1..].starts_with(b"//") && web_scheme(&line[..at]).is_some() => {
                address_end = at + 1 + address_bytes(&line[at + 1..]);
                continue;
            }
            b'<' if matches!(bytes.get(at + 1), Some(b'!' | b'?')) => (at + 1, Some(LITERAL_MARKER)),
            b'*' | b'_' | b'~' if at < address_end && !line[..at].ends_with('\\') && goes_on(&line[at + 1..]) => {
                (at, literal_delimiter(char::from(byte)))
            }
            0xef if line[at..].starts_with(is_reserved) => (at, Some(char::REPLACEMENT_CHARACTER)),
            _ => continue,
        };
        let Some(placeholder) = placeholder else { continue };
        out.push_str(&line[copied..end]);
        out.push(placeholder);
        copied = if end > at { end } else { at + line[at..].chars().next().map_or(1, char::len_utf8) };
    }
    out.push_str(&line[copied..]);
}

/// The start of the `http` or `https` at the end of `text`.
pub(super) fn web_scheme(text: &str) -> Option<usize> {
    let letters = text.bytes().rev().take(6).take_while(u8::is_ascii_alphabetic).count();
    let start = text.len() - letters;
    ["http", "https"].iter().any(|scheme| text[start..].eq_ignore_ascii_case(scheme)).then_some(start)
}

/// Bytes of `rest` that certainly belong to the address, wherever it stands.
fn address_bytes(rest: &str) -> usize {
    let mut open = 0_usize;
    let end = rest.find(|character: char| match character {
        '(' => {
            open += 1;
            false
        }
        ')' => {
            let is_ours = open > 0;
            open = open.saturating_sub(1);
            !is_ours
        }
        '<' | '>' | '`' | '"' | ']' => true,
        _ => character.is_whitespace(),
    });
    rest[..end.unwrap_or(rest.len())].trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '/').len()
}

/// In scripts without spaces, a delimiter ends emphasis and the address.
fn goes_on(rest: &str) -> bool {
    let next = rest.chars().take(MAX_DELIMITERS).find(|c| !matches!(c, '*' | '_' | '~'));
    next.is_some_and(|c| c.is_ascii())
}

pub(super) fn is_reserved(character: char) -> bool {
    matches!(character, '\u{fdd0}'..='\u{fdd8}')
}

fn literal_delimiter(delimiter: char) -> Option<char> {
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
