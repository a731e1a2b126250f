//! Makes the Markdown ready for a parser that knows no footnotes and whose work grows with the depth of nesting.
//!
//! What must not mean anything to the parser is hidden from it behind characters that are none: U+FDD0 to U+FDD5 never
//! will be assigned (Unicode §23.7), so they say nothing else in a text. [`super::html`] takes them out again.

use std::borrow::Cow;

/// Stands for the `[` that begins a footnote's definition, so that the parser takes it for text. Written as `[` again.
pub(super) const LITERAL_BRACKET: char = '\u{fdd0}';

/// Stands before a marker of a list or quote that is to be text. Written as nothing.
pub(super) const LITERAL_MARKER: char = '\u{fdd1}';

/// Columns of a line in which a list or quote may begin; further right its marker is text.
///
/// The parser visits every open list and quote on every line, 0.8 s of CPU for 50 KB of `- ` and 50 KB of lines after
/// it. Each of them takes a column at least, so this is also how many are ever open. 32 quotes fit easily, and so do the
/// 16 lists after which elements are flattened.
const MARKER_COLUMNS: usize = 256;

/// `markdown` without its byte order mark, with the definitions of footnotes and the markers too far right made text.
///
/// To a parser without footnotes, `[^1]: note` defines the address of a link named `^1` and vanishes from the page; yet
/// constructs outside the subset stay text (contract decision 12).
pub(super) fn prepare(markdown: &str) -> Cow<'_, str> {
    let markdown = markdown.strip_prefix('\u{feff}').unwrap_or(markdown);
    let mut prepared = String::new();
    let mut copied = 0;
    let mut line_start = 0;
    for line in markdown.split_inclusive(['\n', '\r']) {
        let markers = markers(line);
        let hidden = match markers.end {
            End::TooFar => Some((LITERAL_MARKER, 0)),
            End::Text if begins_footnote(&line[markers.bytes..]) => Some((LITERAL_BRACKET, "[".len())),
            End::Text => None,
        };
        if let Some((placeholder, replaced_bytes)) = hidden {
            push_without_placeholders(&markdown[copied..line_start + markers.bytes], &mut prepared);
            prepared.push(placeholder);
            copied = line_start + markers.bytes + replaced_bytes;
        }
        line_start += line.len();
    }
    if copied == 0 && !markdown.contains(is_placeholder) {
        return Cow::Borrowed(markdown);
    }
    push_without_placeholders(&markdown[copied..], &mut prepared);
    Cow::Owned(prepared)
}

/// The white space and the markers of lists and quotes with which a line begins.
struct Markers {
    bytes: usize,
    end: End,
}

/// What comes after them.
enum End {
    /// Anything else, or nothing.
    Text,
    /// A further marker, [`MARKER_COLUMNS`] or more into the line.
    TooFar,
}

fn markers(line: &str) -> Markers {
    let bytes = line.as_bytes();
    let rule = rule_start(bytes);
    let (mut at, mut column) = (0, 0);
    loop {
        match bytes.get(at) {
            Some(b' ') => (at, column) = (at + 1, column + 1),
            Some(b'\t') => (at, column) = (at + 1, column / 4 * 4 + 4),
            _ => {
                let length = marker_length(&bytes[at..]);
                // A thematic break may be as long as it likes, though it looks like many empty lists.
                if length == 0 || at >= rule {
                    return Markers { bytes: at, end: End::Text };
                }
                if column >= MARKER_COLUMNS {
                    return Markers { bytes: at, end: End::TooFar };
                }
                (at, column) = (at + length, column + length);
            }
        }
    }
}

/// The length of the marker that `rest` begins with, 0 when it begins with none.
fn marker_length(rest: &[u8]) -> usize {
    let length = match rest.first() {
        Some(b'>') => return 1,
        Some(b'-' | b'+' | b'*') => 1,
        Some(b'0'..=b'9') => {
            // A number of more than nine digits begins no list (CommonMark §5.2).
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

/// Where the thematic break begins that ends `line`: from there on, only one of `-`, `*` three times or more and white
/// space. The length of the line when there is none.
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

/// Whether `text` begins with `[^label]:`.
fn begins_footnote(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("[^") else { return false };
    let Some((label, after)) = rest.split_once(']') else { return false };
    !label.is_empty() && !label.contains(|c: char| c.is_whitespace() || c == '[') && after.starts_with(':')
}

fn is_placeholder(character: char) -> bool {
    matches!(character, LITERAL_BRACKET | LITERAL_MARKER)
}

fn push_without_placeholders(text: &str, out: &mut String) {
    out.extend(text.chars().map(|c| if is_placeholder(c) { char::REPLACEMENT_CHARACTER } else { c }));
}
