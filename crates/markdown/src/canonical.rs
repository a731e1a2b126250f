//! Recognises HTML that the sanitiser would not change, without building a tree.
//!
//! The grammar has one spelling for each tag and attribute, so a browser has no choice in how to read it:
//!
//! * Every element is closed, in order. Blocks and items are in blocks, never in a paragraph, a heading, code or an
//!   inline element. A link is not in a link. So the HTML parser's rules for misplaced and missing tags never apply.
//! * `<` and `>` only belong to tags, `"` only delimits values, and `&` only begins one of five references.
//! * Addresses have an allowed scheme in plain letters and a host that the URL standard's parser accepts, or stay on
//!   the site.
//!
//! Anything else, even if it is harmless, is left to the sanitiser.

use std::borrow::Cow;

use url::Url;

use crate::host_name::is_short_enough;

pub(super) fn is_canonical(html: &str) -> bool {
    let mut reader = Reader { rest: html, open: Vec::new(), links: 0 };
    reader.read().is_some() && reader.open.is_empty()
}

/// Reads HTML from its beginning. Each method returns `None` where the HTML leaves the grammar.
struct Reader<'a> {
    rest: &'a str,
    /// The names of the elements around the position, the outermost first.
    open: Vec<&'static str>,
    /// The number of links around the position: 0 or 1.
    links: usize,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Option<()> {
        loop {
            self.rest = &self.rest[text_end(self.rest, false)?..];
            if self.rest.is_empty() {
                return Some(());
            }
            self.expect("<")?;
            if self.take("/") {
                let element = self.open.pop()?;
                self.expect(element)?;
                self.expect(">")?;
                self.links -= usize::from(element == "a");
            } else {
                self.start_tag()?;
            }
        }
    }

    fn start_tag(&mut self) -> Option<()> {
        let name_end = self.rest.bytes().take("blockquote>".len()).position(|byte| matches!(byte, b'>' | b' '))?;
        let (name, rest) = self.rest.split_at(name_end);
        self.rest = rest;
        match name {
            "p" => self.block("p"),
            "h2" => self.block("h2"),
            "h3" => self.block("h3"),
            "h4" => self.block("h4"),
            "blockquote" => self.block("blockquote"),
            "ul" => self.block("ul"),
            "ol" => {
                if self.take(" start=\"") {
                    let digits = self.value_of(|byte| byte.is_ascii_digit())?;
                    self.expect("\"")?;
                    (!digits.is_empty()).then_some(())?;
                }
                self.block("ol")
            }
            "li" => {
                matches!(self.open.last(), Some(&"ol" | &"ul")).then_some(())?;
                self.open("li")
            }
            "pre" => {
                self.block("pre")?;
                // An HTML parser drops a line end that follows the tag.
                self.rest.starts_with("<code").then_some(())
            }
            "hr" => {
                self.is_among_blocks().then_some(())?;
                self.expect(">")
            }
            "em" => self.open("em"),
            "strong" => self.open("strong"),
            "del" => self.open("del"),
            "code" => {
                if self.take(" class=\"language-") {
                    let language = self.value_of(|byte| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte))?;
                    self.expect("\"")?;
                    (!language.is_empty()).then_some(())?;
                }
                self.open("code")
            }
            "br" => self.expect(">"),
            "a" => {
                self.expect(" href=\"")?;
                is_allowed_in_link(self.value()?).then_some(())?;
                self.expect(" rel=\"nofollow ugc\"")?;
                self.links += 1;
                (self.links == 1).then_some(())?;
                self.open("a")
            }
            "img" => {
                self.expect(" src=\"")?;
                let source = self.value()?;
                source.strip_prefix("https://").is_some_and(|rest| has_host("https", rest)).then_some(())?;
                self.expect(" alt=\"")?;
                self.value()?;
                self.expect(" loading=\"lazy\" referrerpolicy=\"no-referrer\">")
            }
            _ => None,
        }
    }

    /// Opens `element`, which must be among blocks.
    fn block(&mut self, element: &'static str) -> Option<()> {
        self.is_among_blocks().then_some(())?;
        self.open(element)
    }

    fn open(&mut self, element: &'static str) -> Option<()> {
        self.open.push(element);
        self.expect(">")
    }

    fn is_among_blocks(&self) -> bool {
        self.open.last().is_none_or(|element| matches!(*element, "blockquote" | "li" | "ol" | "ul"))
    }

    /// The rest of an attribute's value. Its closing `"` is passed.
    fn value(&mut self) -> Option<&'a str> {
        let (value, rest) = self.rest.split_at(text_end(self.rest, true)?);
        self.rest = rest;
        self.expect("\"")?;
        Some(value)
    }

    /// The bytes up to the first that `is_part` refuses.
    fn value_of(&mut self, is_part: impl Fn(u8) -> bool) -> Option<&'a str> {
        let end = self.rest.bytes().position(|byte| !is_part(byte))?;
        let (value, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(value)
    }

    fn take(&mut self, expected: &str) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, expected: &str) -> Option<()> {
        self.take(expected).then_some(())
    }
}

/// The meaning of a byte in text and in values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Tag,
    /// Ends a value; in text it is plain.
    Quote,
    Reference,
    /// May begin a no-break space, which is written as a reference.
    Latin,
    /// A character that an HTML parser changes.
    Changed,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    classes[b'<' as usize] = Class::Tag;
    classes[b'>' as usize] = Class::Tag;
    classes[b'"' as usize] = Class::Quote;
    classes[b'&' as usize] = Class::Reference;
    classes[0xc2] = Class::Latin;
    classes[b'\0' as usize] = Class::Changed;
    classes[b'\r' as usize] = Class::Changed;
    classes
};

/// The length of the text at the beginning of `html`, up to the next `<` or the end; in a value, up to the next `"`.
fn text_end(html: &str, in_value: bool) -> Option<usize> {
    let bytes = html.as_bytes();
    let mut at = 0;
    loop {
        let Some(plain) = bytes[at..].iter().position(|&byte| CLASSES[usize::from(byte)] != Class::Plain) else {
            return (!in_value).then_some(bytes.len());
        };
        at += plain;
        let byte = bytes[at];
        at += match CLASSES[usize::from(byte)] {
            Class::Quote if in_value => return Some(at),
            Class::Plain | Class::Quote => 1,
            Class::Tag if byte == b'<' && !in_value => return Some(at),
            Class::Tag | Class::Changed => return None,
            Class::Latin if bytes.get(at + 1) == Some(&0xa0) => return None,
            Class::Latin => 2,
            Class::Reference => reference_length(&html[at..], in_value)?,
        };
    }
}

/// The length of the reference that `html` begins with, if a serialiser writes it in such a place.
fn reference_length(html: &str, in_value: bool) -> Option<usize> {
    let references: &[&str] = &["&amp;", "&lt;", "&gt;", "&nbsp;", "&quot;"];
    let references = if in_value { references } else { &references[..4] };
    references.iter().find(|reference| html.starts_with(**reference)).map(|reference| reference.len())
}

/// Whether `address`, an attribute's value as it is written, leads to the web, to mail or within the site.
fn is_allowed_in_link(address: &str) -> bool {
    if let Some((scheme @ ("https" | "http"), rest)) = address.split_once("://") {
        return has_host(scheme, rest);
    }
    match address.as_bytes() {
        [b'#', ..] | [b'/'] => true,
        // `//host` and `/\host` name another host, and a parser drops a tab or line end between them.
        [b'/', second, ..] => *second > b' ' && !matches!(second, b'/' | b'\\'),
        _ => address.starts_with("mailto:"),
    }
}

/// Whether the host that `rest` begins with is one that the URL standard's parser accepts after `scheme`.
fn has_host(scheme: &str, rest: &str) -> bool {
    let end = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let host = &rest[..end];
    let is_plain = host.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'));
    // A host whose last part is a number is an IPv4 address, and one with `xn--` is decoded: both may be invalid.
    let begins_last_part = host.rsplit('.').next().and_then(|part| part.bytes().next());
    let is_name = is_plain && begins_last_part.is_some_and(|byte| byte.is_ascii_lowercase()) && !host.contains("xn--");
    let is_parsed = |host: &str| is_short_enough(host) && Url::parse(&format!("{scheme}://{host}/")).is_ok();
    is_name || is_parsed(&decoded(host))
}

/// `value` with its references replaced by their characters.
fn decoded(value: &str) -> Cow<'_, str> {
    if !value.contains('&') {
        return Cow::Borrowed(value);
    }
    let value = value.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&quot;", "\"");
    Cow::Owned(value.replace("&amp;", "&"))
}
