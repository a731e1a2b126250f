//! Writes HTML whose depth and size are bounded, escaped exactly as the sanitiser serialises it.

use super::source::{LITERAL_BRACKET, LITERAL_MARKER};

/// Characters that are hidden from the sanitiser, what stands for each until it is done, and the reference to write then.
///
/// Its serialiser looks through the rest of a text for each reference that it writes: 0.13 s of CPU for 100 KB of `&`.
/// So it gets to see none. [`with_references`] comes after it: wherever one of these stands, in text or in a quoted
/// value, it becomes a reference, which cannot be markup.
const HIDDEN: [(char, char, &str); 4] = [
    ('&', '\u{fdd2}', "&amp;"),
    ('<', '\u{fdd3}', "&lt;"),
    ('>', '\u{fdd4}', "&gt;"),
    ('\u{a0}', '\u{fdd5}', "&nbsp;"),
];

/// Deepest nesting of elements; the sanitiser's tree costs the square of it (contract decision 12).
pub(super) const MAX_DEPTH: usize = 32;

/// Bytes of HTML, with hidden characters still hidden, after which no further element is opened.
///
/// Written as references, those at most double it, to 2.8 MB. One address that began just before adds at most 0.6 MB, six
/// bytes for each of the 102,400 of content, and the text that still follows 0.5 MB: under 4 MB (contract decision 12).
const MARKUP_BYTES: usize = 1_400_000;

/// Elements after which no further one is opened: each costs the sanitiser a node, and no text for readers has so many.
const MAX_ELEMENTS: usize = 50_000;

/// HTML under construction.
#[derive(Default)]
pub(super) struct HtmlWriter {
    html: String,
    depth: usize,
    elements: usize,
}

impl HtmlWriter {
    /// The HTML written so far.
    pub(super) fn into_html(self) -> String {
        self.html
    }

    /// Whether an element with `levels - 1` levels below it may be opened here.
    pub(super) fn has_room_for(&self, levels: usize) -> bool {
        self.depth + levels <= MAX_DEPTH && self.elements < MAX_ELEMENTS && self.html.len() < MARKUP_BYTES
    }

    /// Opens `name`. The caller has asked [`Self::has_room_for`] and will [`Self::close`] it.
    pub(super) fn open(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.void(name, attributes);
        self.depth += 1;
    }

    /// Closes the innermost element, which is `name`.
    pub(super) fn close(&mut self, name: &str) {
        self.depth -= 1;
        self.html.push_str("</");
        self.html.push_str(name);
        self.html.push('>');
    }

    /// Writes `name`, which has no end tag.
    pub(super) fn void(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.elements += 1;
        self.html.push('<');
        self.html.push_str(name);
        for (attribute, value) in attributes {
            self.html.push(' ');
            self.html.push_str(attribute);
            self.html.push_str("=\"");
            // Before the path, an address is checked by the sanitiser: it is to read what a browser will read.
            let (plain, hidden) = value.split_at(if is_address(attribute) { authority_end(value) } else { 0 });
            escape(plain, Place::Authority, &mut self.html);
            escape(hidden, Place::Value, &mut self.html);
            self.html.push('"');
        }
        self.html.push('>');
    }

    /// Writes `text`, escaped.
    pub(super) fn text(&mut self, text: &str) {
        escape(text, Place::Text, &mut self.html);
    }

    /// Takes back the end of the line when nothing follows it yet.
    pub(super) fn trim_line_end(&mut self) {
        if self.html.ends_with('\n') {
            self.html.pop();
        }
    }

    /// Ends the line unless one has just ended.
    pub(super) fn fresh_line(&mut self) {
        if !self.html.is_empty() && !self.html.ends_with('\n') {
            self.html.push('\n');
        }
    }
}

/// `html` with the characters that were hidden from the sanitiser written as references.
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

/// Where the host of an absolute address ends; 0 when it has none.
fn authority_end(address: &str) -> usize {
    let Some(authority) = address.find("://").map(|colon| colon + "://".len()) else { return 0 };
    address[authority..].find(['/', '?', '#']).map_or(address.len(), |length| authority + length)
}

/// Where a text is written, which decides how its characters are escaped.
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
            // An HTML parser reads a carriage return as a line feed; so that reading it again changes nothing.
            '\r' => out.push('\n'),
            LITERAL_BRACKET => out.push('['),
            LITERAL_MARKER => {}
            '\0' | '\u{fdd2}'..='\u{fdd5}' => out.push(char::REPLACEMENT_CHARACTER),
            _ => {
                let hidden = HIDDEN.iter().find(|(hidden, _, _)| *hidden == character);
                out.push(hidden.map_or(character, |(_, placeholder, _)| *placeholder));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::content::MAX_BYTES;

    #[test]
    fn html_stays_under_4_mb_whatever_is_written_while_there_is_room() {
        let address = format!("mailto:{}", "\"".repeat(MAX_BYTES));
        for (name, address) in [("hr", "#"), ("a", &"&".repeat(MAX_BYTES)), ("a", &address)] {
            let mut out = HtmlWriter::default();
            while out.has_room_for(1) {
                out.open(name, &[("href", address)]);
                out.close(name);
            }
            out.text(&"&".repeat(MAX_BYTES));
            let bytes = with_references(&out.into_html()).len();
            assert!(bytes <= 4_000_000, "{bytes} bytes");
        }
    }

    #[test]
    fn there_is_room_for_32_levels() {
        let mut out = HtmlWriter::default();
        for level in 0..MAX_DEPTH {
            assert!(out.has_room_for(MAX_DEPTH - level));
            assert!(!out.has_room_for(MAX_DEPTH - level + 1));
            out.open("em", &[]);
        }
        assert!(!out.has_room_for(1));
        out.close("em");
        assert!(out.has_room_for(1));
    }
}
