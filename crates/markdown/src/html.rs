//! Writes HTML of bounded depth and size, escaped exactly as the sanitiser serialises it.

use super::facts::Facts;
use super::source::{byte_set, is_reserved, original, restored};

/// The sanitiser's work grows with the square of the depth (contract decision 12).
pub(super) const MAX_DEPTH: usize = 32;

const MAX_BYTES: usize = 4_000_000;

const BASE_BYTES: usize = 64_000;

/// Text alone takes at most five, the length of `&amp;`.
const BYTES_PER_SOURCE_BYTE: usize = 6;

/// Each element costs the sanitiser a node.
const MAX_ELEMENTS: usize = 50_000;

/// `&` is written as `&amp;`.
const MAX_TEXT_FACTOR: usize = 5;

/// `"` is written as `&quot;`.
const MAX_VALUE_FACTOR: usize = 6;

const LINE_ENDS: usize = 3;

pub(super) type Element<'a> = (&'a str, &'a [(&'a str, &'a str)]);

pub(super) fn max_bytes(source_bytes: usize) -> usize {
    MAX_BYTES.min(BASE_BYTES + BYTES_PER_SOURCE_BYTE * source_bytes)
}

/// An element is opened only if all text that is still to come fits after it.
pub(super) struct HtmlWriter<'s> {
    html: String,
    facts: Facts,
    end_tags: usize,
    /// The text of `source` from `passed` on is still to come.
    source: &'s str,
    passed: usize,
    /// A position in `source`, and the bytes of HTML that the text after it takes.
    counted: Option<(usize, usize)>,
    max_bytes: usize,
    depth: usize,
    elements: usize,
}

impl<'s> HtmlWriter<'s> {
    pub(super) fn new(max_bytes: usize, source: &'s str) -> Self {
        let html = String::with_capacity(max_bytes.min(source.len() + source.len() / 2));
        let facts = Facts::default();
        Self { html, facts, end_tags: 0, source, passed: 0, counted: None, max_bytes, depth: 0, elements: 0 }
    }

    pub(super) fn finish(self) -> (String, Facts) {
        (self.html, self.facts)
    }

    pub(super) fn facts(&mut self) -> &mut Facts {
        &mut self.facts
    }

    pub(super) fn text_is_past(&mut self, position: usize) {
        if position > self.passed && self.source.is_char_boundary(position) {
            self.passed = position;
        }
    }

    /// Each element is within the one before.
    pub(super) fn has_room_for(&mut self, nested: &[Element<'_>]) -> bool {
        if self.depth + nested.len() > MAX_DEPTH || self.elements + nested.len() > MAX_ELEMENTS {
            return false;
        }
        let line_ends = LINE_ENDS * (nested.len() + self.depth);
        let written = self.html.len() + self.end_tags + line_ends;
        let text = MAX_TEXT_FACTOR * (self.source.len() - self.passed);
        let tags: usize = nested.iter().map(|element| tag_bytes(element, |value| MAX_VALUE_FACTOR * value.len())).sum();
        if written + text + tags <= self.max_bytes {
            return true;
        }
        let tags: usize = nested.iter().map(|element| tag_bytes(element, value_bytes)).sum();
        written + self.count_to_come() + tags <= self.max_bytes
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let text = MAX_TEXT_FACTOR * (self.source.len() - self.passed);
        self.html.len() + self.end_tags + LINE_ENDS * self.depth + text + bytes <= self.max_bytes
    }

    fn count_to_come(&mut self) -> usize {
        let bytes = match self.counted {
            Some((position, bytes)) => bytes - text_bytes(&self.source[position..self.passed]),
            None => text_bytes(&self.source[self.passed..]),
        };
        self.counted = Some((self.passed, bytes));
        bytes
    }

    /// The caller asks [`Self::has_room_for`] first, and closes the element later.
    pub(super) fn open(&mut self, element: Element<'_>) {
        self.write_tag(element);
        self.facts.start(element.0);
        self.end_tags += end_tag_bytes(element.0);
        self.depth += 1;
    }

    pub(super) fn close(&mut self, name: &str) {
        self.facts.end(name);
        self.depth -= 1;
        self.end_tags -= end_tag_bytes(name);
        self.html.push_str("</");
        self.html.push_str(name);
        self.html.push('>');
    }

    pub(super) fn void(&mut self, element: Element<'_>) {
        self.write_tag(element);
        self.facts.tag(element.0);
    }

    fn write_tag(&mut self, (name, attributes): Element<'_>) {
        self.elements += 1;
        self.html.push('<');
        self.html.push_str(name);
        for (attribute, value) in attributes {
            self.html.push(' ');
            self.html.push_str(attribute);
            self.html.push_str("=\"");
            escape(value, Context::Attribute, &mut self.html);
            self.html.push('"');
        }
        self.html.push('>');
    }

    pub(super) fn text(&mut self, text: &str) {
        let plain = restored(text);
        self.facts.text(&if plain.contains('\0') { plain.replace('\0', "\u{fffd}").into() } else { plain });
        escape(text, Context::Text, &mut self.html);
    }

    pub(super) fn trim_line_end(&mut self) {
        if self.html.ends_with('\n') {
            self.html.pop();
        }
    }

    pub(super) fn fresh_line(&mut self) {
        if !self.html.is_empty() && !self.html.ends_with('\n') {
            self.facts.text("\n");
            self.html.push('\n');
        }
    }
}

fn text_bytes(text: &str) -> usize {
    text.chars().map(|character| escaped_bytes(character, Context::Text)).sum()
}

fn value_bytes(value: &str) -> usize {
    value.chars().map(|character| escaped_bytes(character, Context::Attribute)).sum()
}

fn tag_bytes((name, attributes): &Element<'_>, value_bytes: impl Fn(&str) -> usize) -> usize {
    let attributes = attributes.iter().map(|(attribute, value)| " =\"\"".len() + attribute.len() + value_bytes(value));
    "<>".len() + name.len() + attributes.sum::<usize>() + end_tag_bytes(name)
}

fn end_tag_bytes(name: &str) -> usize {
    "</>".len() + name.len()
}

fn escaped_bytes(character: char, context: Context) -> usize {
    match character {
        '&' => "&amp;".len(),
        '<' | '>' => "&lt;".len(),
        '"' if context == Context::Attribute => "&quot;".len(),
        '\u{a0}' => "&nbsp;".len(),
        // A tab at the beginning of code may become four spaces.
        '\t' => 4,
        '\0' => char::REPLACEMENT_CHARACTER.len_utf8(),
        _ => character.len_utf8(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Text,
    Attribute,
}

/// With the first bytes of U+00A0 and of placeholders.
const MAY_BE_ESCAPED: [bool; 256] = byte_set(b"&<>\"\r\0\xc2\xef");

fn escape(text: &str, context: Context, out: &mut String) {
    let mut written = 0;
    let mut at = 0;
    while let Some(plain) = text.as_bytes()[at..].iter().position(|&byte| MAY_BE_ESCAPED[usize::from(byte)]) {
        at += plain;
        let Some(character) = text[at..].chars().next() else { break };
        let after = at + character.len_utf8();
        if let Some(replacement) = replacement(character, context) {
            out.push_str(&text[written..at]);
            out.push_str(replacement);
            written = after;
        }
        at = after;
    }
    out.push_str(&text[written..]);
}

fn replacement(character: char, context: Context) -> Option<&'static str> {
    match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' if context == Context::Attribute => Some("&quot;"),
        '\u{a0}' => Some("&nbsp;"),
        // An HTML parser reads a carriage return as a line feed.
        '\r' => Some("\n"),
        '\0' => Some("\u{fffd}"),
        _ if is_reserved(character) => Some(original(character).unwrap_or("\u{fffd}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::*;

    fn roomy() -> HtmlWriter<'static> {
        HtmlWriter::new(1 << 30, "")
    }

    #[test]
    fn the_html_is_bounded_by_the_source_and_by_4_mb() {
        assert_eq!(max_bytes(0), 64_000);
        assert_eq!(max_bytes(102_400), 678_400);
        assert_eq!(max_bytes(usize::MAX / 8), 4_000_000);
    }

    #[test]
    fn an_element_leaves_room_for_the_text_to_come() {
        let text = "&".repeat(100);
        let link: Element<'_> = ("a", &[("href", "/\"")]);
        let tags = "<a href=\"/&quot;\"></a>".len() + LINE_ENDS;
        for spare in [tags - 1, tags] {
            let mut out = HtmlWriter::new(500 + spare, &text);
            assert_eq!(out.has_room_for(&[link]), spare == tags);
            out.text(&text[..40]);
            out.text_is_past(40);
            assert_eq!(out.has_room_for(&[link]), spare == tags);
            out.text(&text[40..]);
            out.text_is_past(100);
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
        fn text_and_tags_take_at_most_the_bytes_that_are_counted(text in any::<String>(), value in any::<String>()) {
            let link: Element<'_> = ("a", &[("href", &value), ("rel", &value)]);
            let mut out = roomy();
            out.text(&text);
            prop_assert!(out.html.len() <= text_bytes(&text));
            prop_assert!(text_bytes(&text) <= MAX_TEXT_FACTOR * text.len());
            let before = out.html.len();
            out.open(link);
            out.close("a");
            prop_assert!(out.html.len() - before <= tag_bytes(&link, value_bytes));
            prop_assert!(value_bytes(&value) <= MAX_VALUE_FACTOR * value.len());
        }

        #[test]
        fn what_is_to_come_is_the_text_after_the_position_passed(text in any::<String>(), passed in any::<Vec<u8>>()) {
            let mut out = HtmlWriter::new(0, &text);
            for position in passed.into_iter().map(usize::from) {
                out.text_is_past(position);
                let expected = text_bytes(&text[out.passed..]);
                prop_assert!(out.count_to_come() == expected);
            }
        }
    }
}
