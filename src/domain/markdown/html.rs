//! Writes HTML of bounded depth and size, escaped exactly as the sanitiser serialises it.

use super::placeholder;

/// Characters that are hidden from the sanitiser: each with its placeholder and the reference that is written in the
/// end.
///
/// The sanitiser's serialiser scans the rest of a text for each reference that it writes: 100 KB of `&` take 0.13 s of
/// CPU. With placeholders the serialiser has no reference to write. [`with_references`] runs after the sanitiser and
/// turns each placeholder into a reference. All placeholders are in text or in quoted values, where a reference cannot
/// be markup.
const HIDDEN: [(char, char, &str); 4] = [
    ('&', '\u{fdd2}', "&amp;"),
    ('<', '\u{fdd3}', "&lt;"),
    ('>', '\u{fdd4}', "&gt;"),
    ('\u{a0}', '\u{fdd5}', "&nbsp;"),
];

/// Deepest nesting of elements. The sanitiser's work grows with the square of the depth (contract decision 12).
pub(super) const MAX_DEPTH: usize = 32;

/// Largest HTML of any content, in bytes (contract decision 12).
const MAX_BYTES: usize = 4_000_000;

/// Bytes of HTML that even the shortest content may have (contract decision 12).
const BASE_BYTES: usize = 64_000;

/// Bytes of HTML for each byte of content (contract decision 12). Text alone takes at most five, the length of `&amp;`.
const BYTES_PER_SOURCE_BYTE: usize = 6;

/// Maximum number of elements. Each element costs the sanitiser a node, and no text that people read has so many
/// elements.
const MAX_ELEMENTS: usize = 50_000;

/// Maximum bytes of the line ends around the tags of one element.
const LINE_ENDS: usize = 3;

/// The name and the attributes of an element.
pub(super) type Element<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// The maximum number of bytes of HTML for content of `source_bytes` bytes.
pub(super) fn max_bytes(source_bytes: usize) -> usize {
    MAX_BYTES.min(BASE_BYTES + BYTES_PER_SOURCE_BYTE * source_bytes)
}

/// HTML under construction. An element is opened only if all text that is still to come fits after it.
pub(super) struct HtmlWriter {
    html: String,
    /// Bytes of `html` once the placeholders are replaced by references.
    bytes: usize,
    /// Bytes of the end tags of the open elements.
    end_tags: usize,
    /// The text that is still to come has at most this many bytes.
    to_come: usize,
    max_bytes: usize,
    depth: usize,
    elements: usize,
}

impl HtmlWriter {
    /// A writer of at most `max_bytes` for content whose text takes at most `to_come` bytes.
    pub(super) fn new(max_bytes: usize, to_come: usize) -> Self {
        Self { html: String::new(), bytes: 0, end_tags: 0, to_come, max_bytes, depth: 0, elements: 0 }
    }

    /// The HTML written so far.
    pub(super) fn into_html(self) -> String {
        self.html
    }

    /// Records that text of at most `bytes` bytes was written. It no longer counts as text that is still to come.
    pub(super) fn text_is_past(&mut self, bytes: usize) {
        self.to_come = self.to_come.saturating_sub(bytes);
    }

    /// Whether these elements, each within the one before, fit here.
    pub(super) fn has_room_for(&self, nested: &[Element<'_>]) -> bool {
        if self.depth + nested.len() > MAX_DEPTH || self.elements + nested.len() > MAX_ELEMENTS {
            return false;
        }
        let tags: usize = nested.iter().map(|element| start_tag_bytes(element) + end_tag_bytes(element.0)).sum();
        self.bytes + self.end_tags + self.to_come + tags + LINE_ENDS * (nested.len() + self.depth) <= self.max_bytes
    }

    /// Opens an element. The caller must ask [`Self::has_room_for`] first, and must close the element with
    /// [`Self::close`] later.
    pub(super) fn open(&mut self, element: Element<'_>) {
        self.void(element);
        self.end_tags += end_tag_bytes(element.0);
        self.depth += 1;
    }

    /// Closes the innermost element, which is `name`.
    pub(super) fn close(&mut self, name: &str) {
        self.depth -= 1;
        self.end_tags -= end_tag_bytes(name);
        self.bytes += end_tag_bytes(name);
        self.html.push_str("</");
        self.html.push_str(name);
        self.html.push('>');
    }

    /// Writes an element without an end tag. The caller must ask [`Self::has_room_for`] first.
    pub(super) fn void(&mut self, element: Element<'_>) {
        let (name, attributes) = element;
        self.elements += 1;
        self.bytes += start_tag_bytes(&element);
        self.html.push('<');
        self.html.push_str(name);
        for (attribute, value) in attributes {
            self.html.push(' ');
            self.html.push_str(attribute);
            self.html.push_str("=\"");
            // The sanitiser checks the part of an address before its path. This part is written without placeholders,
            // so that the sanitiser reads the same text as a browser.
            let (plain, hidden) = value.split_at(if is_address(attribute) { authority_end(value) } else { 0 });
            escape(plain, Place::Authority, &mut self.html);
            escape(hidden, Place::Value, &mut self.html);
            self.html.push('"');
        }
        self.html.push('>');
    }

    /// Writes `text`, escaped.
    pub(super) fn text(&mut self, text: &str) {
        self.bytes += text_bytes(text);
        escape(text, Place::Text, &mut self.html);
    }

    /// Removes the line end that was written last, if nothing follows it yet.
    pub(super) fn trim_line_end(&mut self) {
        if self.html.ends_with('\n') {
            self.html.pop();
            self.bytes -= 1;
        }
    }

    /// Ends the line unless one has just ended.
    pub(super) fn fresh_line(&mut self) {
        if !self.html.is_empty() && !self.html.ends_with('\n') {
            self.html.push('\n');
            self.bytes += 1;
        }
    }
}

/// The maximum number of bytes that `text` takes when it is written between tags.
pub(super) fn text_bytes(text: &str) -> usize {
    text.chars().map(|character| escaped_bytes(character, Place::Text)).sum()
}

fn start_tag_bytes((name, attributes): &Element<'_>) -> usize {
    let value_bytes = |value: &str| value.chars().map(|c| escaped_bytes(c, Place::Value)).sum::<usize>();
    let attributes = attributes.iter().map(|(attribute, value)| " =\"\"".len() + attribute.len() + value_bytes(value));
    "<>".len() + name.len() + attributes.sum::<usize>()
}

fn end_tag_bytes(name: &str) -> usize {
    "</>".len() + name.len()
}

/// The maximum number of bytes that `character` takes in `place`.
fn escaped_bytes(character: char, place: Place) -> usize {
    match character {
        '&' => "&amp;".len(),
        '<' | '>' => "&lt;".len(),
        '"' if place != Place::Text => "&quot;".len(),
        '\u{a0}' => "&nbsp;".len(),
        // A tab at the beginning of code may become up to four spaces, and U+0000 becomes U+FFFD.
        '\t' => 4,
        '\0' => char::REPLACEMENT_CHARACTER.len_utf8(),
        _ => character.len_utf8(),
    }
}

/// `html` with its placeholders replaced by references.
pub(super) fn with_references(html: &str) -> String {
    let mut out = String::with_capacity(html.len() + html.len() / 8);
    for character in html.chars() {
        match HIDDEN.iter().find(|(_, placeholder, _)| *placeholder == character) {
            Some((_, _, reference)) => out.push_str(reference),
            None => out.push(character),
        }
    }
    out
}

fn is_address(attribute: &str) -> bool {
    matches!(attribute, "href" | "src")
}

/// The position where the host of `address` ends; 0 if `address` is not absolute.
fn authority_end(address: &str) -> usize {
    let Some(authority) = address.find("://").map(|colon| colon + "://".len()) else { return 0 };
    address[authority..].find(['/', '?', '#']).map_or(address.len(), |length| authority + length)
}

/// The place of a text, which decides how its characters are escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between tags.
    Text,
    /// In a quoted attribute.
    Value,
    /// At the beginning of a quoted address.
    Authority,
}

fn escape(text: &str, place: Place, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' if place == Place::Authority => out.push_str("&amp;"),
            '"' if place != Place::Text => out.push_str("&quot;"),
            // An HTML parser reads a carriage return as a line feed. Writing a line feed keeps the HTML the same when
            // it is parsed and written again.
            '\r' => out.push('\n'),
            '\0' | '\u{fdd2}'..='\u{fdd5}' => out.push(char::REPLACEMENT_CHARACTER),
            '\u{fdd0}'..='\u{fdd8}' => out.push_str(placeholder::original(character).unwrap_or_default()),
            _ => {
                let hidden = HIDDEN.iter().find(|(hidden, _, _)| *hidden == character);
                out.push(hidden.map_or(character, |(_, placeholder, _)| *placeholder));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::*;

    /// A writer without bounds.
    fn roomy() -> HtmlWriter {
        HtmlWriter::new(usize::MAX / 2, 0)
    }

    #[test]
    fn the_html_is_bounded_by_the_source_and_by_4_mb() {
        assert_eq!(max_bytes(0), 64_000);
        assert_eq!(max_bytes(102_400), 678_400);
        assert_eq!(max_bytes(usize::MAX / 8), 4_000_000);
    }

    #[test]
    fn an_element_is_opened_only_where_the_text_to_come_finds_room_after_it() {
        let text = "&".repeat(100);
        let link: Element<'_> = ("a", &[("href", "/\"")]);
        let tags = "<a href=\"/&quot;\"></a>".len() + LINE_ENDS;
        for spare in [tags - 1, tags] {
            let mut out = HtmlWriter::new(500 + spare, 500);
            assert_eq!(out.has_room_for(&[link]), spare == tags);
            out.text(&text);
            out.text_is_past(500);
            assert_eq!(out.has_room_for(&[link]), spare == tags);
        }
    }

    #[test]
    fn there_is_room_for_32_levels() {
        let mut out = roomy();
        let em: Element<'_> = ("em", &[]);
        for level in 0..MAX_DEPTH {
            assert!(out.has_room_for(&vec![em; MAX_DEPTH - level]));
            assert!(!out.has_room_for(&vec![em; MAX_DEPTH - level + 1]));
            out.open(em);
        }
        assert!(!out.has_room_for(&[em]));
        out.close("em");
        assert!(out.has_room_for(&[em]));
    }

    proptest! {
        #[test]
        fn the_writer_counts_at_least_the_bytes_that_it_writes(text in any::<String>(), value in any::<String>()) {
            let mut out = roomy();
            out.open(("a", &[("href", &value), ("rel", &value)]));
            out.text(&text);
            out.close("a");
            out.fresh_line();
            let counted = out.bytes;
            prop_assert!(with_references(&out.into_html()).len() <= counted);
        }
    }
}
