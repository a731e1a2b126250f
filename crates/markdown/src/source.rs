//! Prepares the Markdown for the parser. The parser knows no footnotes, its work grows with the depth of nesting, and a
//! line of raw HTML makes the parser skip the Markdown after that line. Placeholders ([`super::placeholder`]) hide from
//! the parser all characters that must stay text.

use super::placeholder::{LITERAL_BRACKET, LITERAL_MARKER, is_reserved, literal_delimiter};

/// Number of columns at the start of a line in which a list or quote may begin. A marker further right is text.
///
/// The parser checks every open list and quote on every line: 50 KB of `- ` and 50 KB of lines after it take 0.8 s of
/// CPU. Each list or quote takes at least one column, so this limit also bounds how many are open. Elements are
/// flattened after 32 quotes or 16 lists, and so many fit easily.
const MARKER_COLUMNS: usize = 256;

/// Longest run of delimiters that may be part of a bare web address. A longer run would cost too much, because its rest
/// is scanned again from each of its characters.
const MAX_DELIMITERS: usize = 8;

/// The lines that begin with `<` and are left as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spared {
    /// Lines after a line that ends with `](` or `]:`, because the `<` may begin an address.
    Addresses,
    Nothing,
}

/// `markdown` without its byte order mark. These constructs are made text:
///
/// * The definitions of footnotes. A parser without footnotes reads `[^1]: note` as the definition of a link named `^1`
///   and drops it from the page, but constructs outside the subset must stay text (contract decision 12).
/// * The markers of lists and quotes too far right.
/// * Raw HTML at the beginning of a line, except where it is `spared`, and comments, declarations and instructions
///   anywhere, so that Markdown in and around them is formatted. A tag within a line is left, because it hides no
///   Markdown around it.
/// * `*`, `_` and `~` within a bare web address, because GitHub finds addresses before it looks for emphasis.
pub(super) fn prepare(markdown: &str, spared: Spared) -> String {
    let markdown = markdown.strip_prefix('\u{feff}').unwrap_or(markdown);
    let mut prepared = String::with_capacity(markdown.len() + markdown.len() / 8);
    let mut previous = "";
    let mut remaining = markdown;
    // Searching for one character is much faster than searching for two.
    let has_returns = markdown.contains('\r');
    while !remaining.is_empty() {
        let line;
        let end = if has_returns { remaining.find(['\n', '\r']) } else { remaining.find('\n') };
        (line, remaining) = remaining.split_at(end.map_or(remaining.len(), |end| end + 1));
        let markers = markers(line);
        let (start, mut rest) = line.split_at(markers.bytes);
        prepared.push_str(start);
        match markers.end {
            End::TooFar => prepared.push(LITERAL_MARKER),
            End::Text if begins_footnote(rest) => {
                prepared.push(LITERAL_BRACKET);
                rest = &rest["[".len()..];
            }
            End::Text if begins_tag(rest) && !(spared == Spared::Addresses && awaits_address(previous)) => {
                prepared.push(LITERAL_MARKER);
            }
            End::Text => {}
        }
        push_line(rest, &mut prepared);
        if line != "\n" {
            previous = line;
        }
    }
    prepared
}

/// The white space and the markers of lists and quotes at the beginning of a line.
struct Markers {
    bytes: usize,
    end: End,
}

/// The text after the markers.
enum End {
    /// No further marker.
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
                // A thematic break may have any length, though it looks like many empty lists.
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

/// The length of the marker that `rest` begins with; 0 if `rest` begins with no marker.
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

/// The start of the thematic break at the end of `line`; the length of `line` if there is no thematic break. A thematic
/// break is three or more `-`, or three or more `*`, with only white space between and after them.
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

/// Whether `text` begins like a start tag or an end tag.
fn begins_tag(text: &str) -> bool {
    text.strip_prefix('<').is_some_and(|rest| rest.starts_with(|c: char| c == '/' || c.is_ascii_alphabetic()))
}

/// Whether the address of a link or of a definition may begin on the line after `line`.
fn awaits_address(line: &str) -> bool {
    let line = line.trim_end();
    line.ends_with("](") || line.ends_with("]:")
}

/// Whether each byte may begin something that [`push_line`] replaces.
const MAY_BE_REPLACED: [bool; 256] = {
    let mut table = [false; 256];
    table[b':' as usize] = true;
    table[b'<' as usize] = true;
    table[b'*' as usize] = true;
    table[b'_' as usize] = true;
    table[b'~' as usize] = true;
    // The first byte of each placeholder.
    table[0xef] = true;
    table
};

/// Appends `line`, which is the part of a line after its markers.
fn push_line(line: &str, out: &mut String) {
    let bytes = line.as_bytes();
    // Before this position, `*`, `_` and `~` belong to a bare web address.
    let mut address_end = 0;
    let (mut copied, mut next) = (0, 0);
    while let Some(plain) = bytes[next..].iter().position(|&byte| MAY_BE_REPLACED[usize::from(byte)]) {
        let at = next + plain;
        let byte = bytes[at];
        next = at + 1;
        let (end, placeholder) = match byte {
            b':' if at >= address_end && bytes[at + 1..].starts_with(b"//") && ends_with_web_scheme(&line[..at]) => {
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
        // The placeholder follows a `<`, and replaces any other character.
        copied = if end > at { end } else { at + line[at..].chars().next().map_or(1, char::len_utf8) };
    }
    out.push_str(&line[copied..]);
}

fn ends_with_web_scheme(text: &str) -> bool {
    let letters = text.bytes().rev().take(6).take_while(u8::is_ascii_alphabetic).count();
    let scheme = &text[text.len() - letters..];
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// The number of bytes of `rest` that certainly belong to a bare web address. `rest` is the text after the scheme of
/// the address. The address may be between quotes, in code or in angle brackets, or it may be the address of a link.
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

/// Whether an address continues after a delimiter. The address ends there if letters or punctuation of other scripts
/// follow: these need no space before them, so the delimiter ends emphasis.
fn goes_on(rest: &str) -> bool {
    let next = rest.chars().take(MAX_DELIMITERS).find(|c| !matches!(c, '*' | '_' | '~'));
    next.is_some_and(|c| c.is_ascii())
}
