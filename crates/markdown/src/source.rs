//! Hides from the parser what must stay text, behind placeholders ([`super::placeholder`]).

use super::placeholder::{LITERAL_BRACKET, LITERAL_MARKER, is_reserved, literal_delimiter};

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

struct Markers {
    bytes: usize,
    end: End,
}

enum End {
    Text,
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
                // A thematic break looks like many empty lists.
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

const MAY_BE_REPLACED: [bool; 256] = {
    let mut table = [false; 256];
    table[b':' as usize] = true;
    table[b'<' as usize] = true;
    table[b'*' as usize] = true;
    table[b'_' as usize] = true;
    table[b'~' as usize] = true;
    // Placeholders.
    table[0xef] = true;
    table
};

fn push_line(line: &str, out: &mut String) {
    let bytes = line.as_bytes();
    // `*`, `_` and `~` before this position belong to an address.
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
        copied = if end > at { end } else { at + line[at..].chars().next().map_or(1, char::len_utf8) };
    }
    out.push_str(&line[copied..]);
}

fn ends_with_web_scheme(text: &str) -> bool {
    let letters = text.bytes().rev().take(6).take_while(u8::is_ascii_alphabetic).count();
    let scheme = &text[text.len() - letters..];
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
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
