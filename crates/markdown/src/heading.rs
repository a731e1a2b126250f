//! The heading that names a text which was sent without a title (contract, decision 19).

use pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};

use super::placeholder::{events, restored};
use super::source::{self, Spared};
use crate::html_text::collapsed;
use crate::invisible::shows_nothing;

/// The text of the first heading of level 1, else of the first heading of any level, on one line and without markup. A
/// heading that shows nothing is skipped. `None` if there is no heading.
///
/// The text is not checked: a heading may be longer than a title, or hold characters that a title must not have.
pub fn first_heading(markdown: &str) -> Option<String> {
    let source = source::prepare(markdown, Spared::Nothing);
    let (mut lower, mut open) = (None, None);
    for (event, _) in events(&source) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => open = Some((level, String::new())),
            Event::End(TagEnd::Heading(_)) => {
                let Some((level, text)) = open.take() else { continue };
                let text = collapsed(&restored(&text));
                if shows_nothing(&text) {
                    continue;
                }
                if level == HeadingLevel::H1 {
                    return Some(text);
                }
                lower.get_or_insert(text);
            }
            Event::Text(more) | Event::Code(more) | Event::InlineHtml(more) => {
                if let Some((_, text)) = &mut open {
                    text.push_str(&more);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some((_, text)) = &mut open {
                    text.push(' ');
                }
            }
            _ => {}
        }
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_heading_of_level_1_names_a_text_else_the_first_of_any_level() {
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
            assert_eq!(first_heading(markdown).as_deref(), title, "{markdown:?}");
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
            assert_eq!(first_heading(markdown).as_deref(), Some(title), "{markdown:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_heading_of_anything_is_one_line_that_shows_something(markdown in "(\\PC|[#=*_\\[\\]<>&`\\n ]|# |\n){0,200}") {
            if let Some(text) = first_heading(&markdown) {
                proptest::prop_assert!(!text.contains(char::is_control) && !shows_nothing(&text), "{text:?}");
            }
        }
    }
}
