//! Finds text that readers of a page's HTML can see or copy: its text and the values of its attributes.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Whether `is_found` holds for the text of `html`, including the alternative texts of its images, or for an
/// attribute's value, as it is or percent-decoded. `html` comes from [`super::render`], so each `<` and `>` in it
/// belongs to a tag.
pub(super) fn any(html: &str, is_found: impl Fn(&str) -> bool) -> bool {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(&decoded(before));
        let Some((tag, after)) = after.split_once('>') else { break };
        let mut parts = tag.split('"');
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            let value = decoded(value);
            if is_found(&value) || is_found(&percent_decode_str(&value).decode_utf8_lossy()) {
                return true;
            }
            if name == " alt=" {
                text.push_str(&value);
            }
        }
        rest = after;
    }
    text.push_str(&decoded(rest));
    is_found(&text)
}

/// `text` with the references that an HTML serialiser writes replaced by their characters.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&nbsp;", "\u{a0}");
    Cow::Owned(text.replace("&amp;", "&"))
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
