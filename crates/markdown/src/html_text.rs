//! Reads the tags and the text of HTML that the renderer wrote, without building a tree. Everything that is learnt from
//! finished HTML is read here: the excerpt, the language, hosts, and text that must not be in it.
//!
//! The renderer's HTML comes from a serialiser: `<` only ever begins a tag, and every attribute value is in `"`. Other
//! HTML causes no failure, but its pieces have no meaning.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Tag(&'a str),
    /// Text without character references.
    Text(&'a str),
    /// A character that was written as a reference, such as `&amp;`.
    Character(char),
}

pub fn pieces(html: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = html;
    std::iter::from_fn(move || {
        let piece;
        (piece, rest) = match rest.bytes().next()? {
            b'<' => {
                let (tag, after) = split_tag(rest);
                (Piece::Tag(tag), after)
            }
            b'&' => {
                let (character, after) = split_reference(rest);
                (Piece::Character(character), after)
            }
            _ => {
                let end = rest.bytes().position(|byte| matches!(byte, b'<' | b'&'));
                let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
                (Piece::Text(text), after)
            }
        };
        Some(piece)
    })
}

pub fn element(tag: &str) -> &str {
    let name = tag.trim_start_matches(['<', '/']);
    &name[..name.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(name.len())]
}

pub fn closes(tag: &str) -> bool {
    tag.starts_with("</")
}

/// The attributes of `tag`: each name, and its value without references.
pub fn attributes(tag: &str) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let mut parts = tag.split('"');
    std::iter::from_fn(move || {
        let (before, value) = (parts.next()?, parts.next()?);
        let name = before.rsplit(' ').next().unwrap_or(before).trim_end_matches('=');
        Some((name, decoded(value)))
    })
}

/// `value` with its references replaced by their characters.
fn decoded(value: &str) -> Cow<'_, str> {
    if !value.contains('&') {
        return Cow::Borrowed(value);
    }
    let mut text = String::with_capacity(value.len());
    for piece in pieces(value) {
        match piece {
            Piece::Tag(more) | Piece::Text(more) => text.push_str(more),
            Piece::Character(character) => text.push(character),
        }
    }
    Cow::Owned(text)
}

/// The text that `html` shows, with collapsed white space.
pub fn visible_text(html: &str) -> String {
    beginning_of_visible_text(html, usize::MAX)
}

/// The text that `html` shows, with collapsed white space. A longer text may be cut after `bytes` bytes.
pub fn beginning_of_visible_text(html: &str, bytes: usize) -> String {
    let mut text = String::new();
    for piece in pieces(html) {
        if text.len() > bytes {
            break;
        }
        match piece {
            Piece::Tag(tag) if is_inline(element(tag)) => {}
            Piece::Tag(_) => push_collapsed(&mut text, " "),
            Piece::Text(more) => push_collapsed(&mut text, more),
            Piece::Character(character) => push_collapsed(&mut text, character.encode_utf8(&mut [0; 4])),
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// `text` on one line, as a browser shows it: one space for each run of white space and control characters.
pub fn collapsed(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    push_collapsed(&mut line, text);
    line.truncate(line.trim_end().len());
    line
}

/// Whether a word may continue across a tag of the element `name`.
pub fn is_inline(name: &str) -> bool {
    ["a", "strong", "em", "del", "code"].contains(&name)
}

/// Appends `more` with one space for each run of white space and control characters, and none at the beginning of
/// `text`.
fn push_collapsed(text: &mut String, more: &str) {
    for character in more.chars() {
        if !character.is_whitespace() && !character.is_control() {
            text.push(character);
        } else if !text.is_empty() && !text.ends_with(' ') {
            text.push(' ');
        }
    }
}

/// The tag at the beginning of `html` and the rest. A `>` within a quoted attribute does not end the tag.
fn split_tag(html: &str) -> (&str, &str) {
    let mut quoted = false;
    let end = html.bytes().position(|byte| {
        quoted ^= byte == b'"';
        byte == b'>' && !quoted
    });
    end.map_or((html, ""), |end| html.split_at(end + 1))
}

/// The character of the reference at the beginning of `html`, and the rest. If there is no reference, the character is
/// the `&` itself.
fn split_reference(html: &str) -> (char, &str) {
    // The longest reference that is read is `&#x10FFFF;`.
    let semicolon = html.bytes().take(10).position(|byte| byte == b';');
    let decoded = semicolon.and_then(|end| Some((character_of(&html[1..end])?, &html[end + 1..])));
    decoded.unwrap_or(('&', &html[1..]))
}

/// The character of a reference: one of the few names that a serialiser writes, or any number.
fn character_of(reference: &str) -> Option<char> {
    match reference {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some('\u{a0}'),
        _ => {
            let number = reference.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_taken_apart_into_tags_text_and_references() {
        let html = "<p>a &amp; b<a href=\"/x>y\">&#x41;</a>";
        let expected = [
            Piece::Tag("<p>"),
            Piece::Text("a "),
            Piece::Character('&'),
            Piece::Text(" b"),
            Piece::Tag("<a href=\"/x>y\">"),
            Piece::Character('A'),
            Piece::Tag("</a>"),
        ];
        assert_eq!(pieces(html).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn text_is_shown_on_one_line() {
        assert_eq!(visible_text("<h2>One</h2>\n<p>t<em>wo</em>&nbsp; <br>three</p>"), "One two three");
        assert_eq!(collapsed(" a \t\n b\u{a0}"), "a b");
    }

    #[test]
    fn a_tag_names_its_element() {
        assert_eq!(
            [element("<pre>"), element("</h2>"), element("<img src=\"\">"), element("<")],
            ["pre", "h2", "img", ""]
        );
        assert!(closes("</p>") && !closes("<p>"));
    }

    #[test]
    fn an_attribute_has_its_name_and_its_value_without_references() {
        let found: Vec<_> = attributes("<img src=\"/?a&amp;b\" alt=\"&lt;a b=&quot;\">").collect();
        assert_eq!(found, [("src", Cow::Borrowed("/?a&b")), ("alt", Cow::Borrowed("<a b=\""))]);
        assert_eq!(attributes("<p>").count(), 0);
    }

    proptest::proptest! {
        #[test]
        fn the_pieces_of_anything_come_to_an_end(html in "(\\PC|[<>&;\"#x/ \\n]|&amp;|<p>|</a>){0,400}") {
            proptest::prop_assert!(pieces(&html).count() <= html.len());
        }
    }
}
