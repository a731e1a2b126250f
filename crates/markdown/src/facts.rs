//! Facts about a page, gathered while its HTML is written.

use percent_encoding::percent_decode_str;
use pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};

use super::plain_text::{Excerpt, collapsed, shows_nothing};
use super::{language::Sample, links::LinkAddress, source::restored};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// With the alternative texts of images. Each block ends a line.
    pub text: String,
    pub addresses: Vec<String>,
}

impl Shown {
    /// Whether `is_found` holds for the text, or for an address as written or percent-decoded.
    pub fn any(&self, is_found: impl Fn(&str) -> bool) -> bool {
        let mut addresses = self.addresses.iter();
        is_found(&self.text)
            || addresses.any(|address| is_found(address) || is_found(&percent_decode_str(address).decode_utf8_lossy()))
    }
}

#[derive(Default)]
pub(super) struct Facts {
    pub(super) shown: Shown,
    pub(super) link_origins: Vec<String>,
    pub(super) excerpt: Excerpt,
    pub(super) sample: Sample,
    code: usize,
}

impl Facts {
    pub(super) fn start(&mut self, name: &str) {
        self.tag(name);
        self.code += usize::from(is_code(name));
    }

    pub(super) fn end(&mut self, name: &str) {
        self.tag(name);
        self.code -= usize::from(is_code(name));
    }

    pub(super) fn tag(&mut self, name: &str) {
        // A word may continue across other elements, and a line across an image.
        match name {
            "a" | "strong" | "em" | "del" | "code" => return,
            "img" => self.excerpt.push(" "),
            _ => self.excerpt.end_line(),
        }
        self.sample.push(" ");
    }

    pub(super) fn text(&mut self, text: &str) {
        self.shown.text.push_str(text);
        self.excerpt.push(text);
        if self.code == 0 {
            self.sample.push(text);
        }
    }

    pub(super) fn link(&mut self, LinkAddress { href, origin }: &LinkAddress) {
        self.shown.addresses.push(href.clone());
        if let Some(origin) = origin
            && self.link_origins.len() < 2
            && !self.link_origins.contains(origin)
        {
            self.link_origins.push(origin.clone());
        }
    }

    pub(super) fn image(&mut self, address: &str, alt: &str) {
        self.shown.addresses.push(address.to_owned());
        self.shown.text.push_str(alt);
    }
}

fn is_code(name: &str) -> bool {
    matches!(name, "code" | "pre")
}

/// Names a text without a title (contract, decision 19): the first heading of level 1, else the first of any level.
#[derive(Default)]
pub(super) struct FirstHeading {
    upper: Option<String>,
    lower: Option<String>,
    open: Option<(HeadingLevel, String)>,
}

impl FirstHeading {
    pub(super) fn read(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let may_be_first = if *level == HeadingLevel::H1 { &self.upper } else { &self.lower }.is_none();
                self.open = may_be_first.then(|| (*level, String::new()));
            }
            Event::End(TagEnd::Heading(_)) => {
                let Some((level, text)) = self.open.take() else { return };
                let text = collapsed(&restored(&text));
                if !shows_nothing(&text) {
                    *(if level == HeadingLevel::H1 { &mut self.upper } else { &mut self.lower }) = Some(text);
                }
            }
            Event::Text(more) | Event::Code(more) | Event::InlineHtml(more) => self.push(more),
            Event::SoftBreak | Event::HardBreak => self.push(" "),
            _ => {}
        }
    }

    /// May be longer than a title, or have characters that a title must not have.
    pub(super) fn into_text(self) -> Option<String> {
        self.upper.or(self.lower)
    }

    fn push(&mut self, more: &str) {
        if let Some((_, text)) = &mut self.open {
            text.push_str(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;

    #[test]
    fn text_is_shown_across_elements_and_in_attributes() {
        for markdown in
            ["a*b*c", "&#97;b`c`", "ab![c](https://e.example/)", "[x](/%61bc)", "![a*b*c](https:e)", "[x](/?abc)"]
        {
            assert!(render(markdown).shown.any(|text| text.contains("abc")), "{markdown}");
        }
        for markdown in ["a b c", "ab\n\nc", "- ab\n- c"] {
            assert!(!render(markdown).shown.any(|text| text.contains("abc")), "{markdown}");
        }
        assert!(render("\\&lt; <b> \u{a0}").shown.any(|text| text.contains("&lt; <b> \u{a0}")));
    }

    #[test]
    fn addresses_are_those_of_links_and_images_in_order() {
        let markdown = "[a](https://A.example/?b&c) ![d](https://e.example/) <f@g.example> `<https://h.example>`";
        let expected = ["https://a.example/?b&c", "https://e.example/", "mailto:f@g.example"];
        assert_eq!(render(markdown).shown.addresses, expected);
        assert_eq!(crate::addresses(markdown), expected);
    }

    #[test]
    fn the_first_h1_or_else_any_first_heading_names_a_text() {
        for (markdown, title) in [
            ("# One\n\n# Two", Some("One")),
            ("text\n\n## Lower\n\n# Upper", Some("Upper")),
            ("### Third\n\n## Second", Some("Third")),
            ("Under\nlined\n===\n", Some("Under lined")),
            ("#\n\n# \u{200b}\n\n## Seen", Some("Seen")),
            ("\u{feff}# After a byte order mark", Some("After a byte order mark")),
            ("text\n\n    # code\n\n```\n# code\n```\n\n#hashtag", None),
            ("", None),
        ] {
            assert_eq!(render(markdown).title_in_text.as_deref(), title, "{markdown:?}");
        }
    }

    #[test]
    fn the_text_of_a_heading_has_no_markup_and_loses_no_text() {
        for (markdown, title) in [
            ("# *A* **bold** `code` ~~x~~ [link](/) ![alt](https://a.example/x) #", "A bold code x link alt"),
            ("# a &amp; b &lt;c>", "a & b <c>"),
            ("# <b>tags</b> stay <!-- text -->", "<b>tags</b> stay <!-- text -->"),
            ("#   many \t spaces  ", "many spaces"),
            ("# https://a.example/x_y_z*", "https://a.example/x_y_z*"),
            ("# a&#xFDD6;b", "a\u{fffd}b"),
        ] {
            assert_eq!(render(markdown).title_in_text.as_deref(), Some(title), "{markdown:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_heading_of_anything_is_one_line_that_shows_something(markdown in "(\\PC|[#=*_\\[\\]<>&`\\n ]|# |\n){0,200}") {
            if let Some(text) = render(&markdown).title_in_text {
                proptest::prop_assert!(!text.contains(char::is_control) && !shows_nothing(&text), "{text:?}");
            }
        }
    }
}
