//! Finds text that readers of a page's HTML can see or copy: its text and the values of its attributes.

use percent_encoding::percent_decode_str;

use crate::html_text::{Piece, attributes, pieces};

/// Whether `is_found` holds for the text of `html`, including the alternative texts of its images, or for an
/// attribute's value, as it is or percent-decoded. `html` comes from [`super::render`].
pub(super) fn any(html: &str, is_found: impl Fn(&str) -> bool) -> bool {
    let mut text = String::with_capacity(html.len());
    for piece in pieces(html) {
        match piece {
            Piece::Text(more) => text.push_str(more),
            Piece::Character(character) => text.push(character),
            Piece::Tag(tag) => {
                for (name, value) in attributes(tag) {
                    if is_found(&value) || is_found(&percent_decode_str(&value).decode_utf8_lossy()) {
                        return true;
                    }
                    if name == "alt" {
                        text.push_str(&value);
                    }
                }
            }
        }
    }
    is_found(&text)
}

#[cfg(test)]
mod tests {
    use crate::render;

    #[test]
    fn text_is_exposed_across_elements_and_in_attributes() {
        for markdown in
            ["a*b*c", "&#97;b`c`", "ab![c](https://e.example/)", "[x](/%61bc)", "![a*b*c](https:e)", "[x](/?abc)"]
        {
            assert!(render(markdown).exposes(|text| text.contains("abc")), "{markdown}");
        }
        for markdown in ["a b c", "ab\n\nc", "- ab\n- c"] {
            assert!(!render(markdown).exposes(|text| text.contains("abc")), "{markdown}");
        }
        assert!(render("\\&lt; <b> \u{a0}").exposes(|text| text.contains("&lt; <b> \u{a0}")));
    }
}
