//! Facts about a page, gathered while its HTML is written.

use percent_encoding::percent_decode_str;

use super::excerpt::Excerpt;
use super::language::{Language, Sample};
use super::links::LinkAddress;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// With the alternative texts of images. Each block ends a line.
    pub text: String,
    pub addresses: Vec<String>,
}

impl Shown {
    /// Whether `is_found` holds for the text, or for an address as written or percent-decoded.
    pub fn any(&self, is_found: impl Fn(&str) -> bool) -> bool {
        let is_in = |address: &String| is_found(address) || is_found(&percent_decode_str(address).decode_utf8_lossy());
        is_found(&self.text) || self.addresses.iter().any(is_in)
    }
}

#[derive(Default)]
pub(super) struct Facts {
    pub(super) shown: Shown,
    /// The first two different ones.
    pub(super) link_origins: Vec<String>,
    excerpt: Excerpt,
    sample: Sample,
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
        if !matches!(name, "a" | "strong" | "em" | "del" | "code") {
            self.excerpt.push(" ");
            self.sample.push(" ");
        }
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

    pub(super) fn excerpt(&self) -> String {
        self.excerpt.cut()
    }

    pub(super) fn language(&self) -> Option<Language> {
        Language::of(&self.sample)
    }
}

fn is_code(name: &str) -> bool {
    matches!(name, "code" | "pre")
}

#[cfg(test)]
mod tests {
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
        let shown =
            render("[a](https://A.example/?b&c) ![d](https://e.example/) <f@g.example> `<https://h.example>`").shown;
        assert_eq!(shown.addresses, ["https://a.example/?b&c", "https://e.example/", "mailto:f@g.example"]);
    }
}
