//! The heading that names a text which was sent without a title (contract, decision 19).

use pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};

use super::excerpt::collapsed;
use super::invisible::shows_nothing;
use super::placeholder::restored;

/// The first heading of level 1, else the first of any level.
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
            assert_eq!(render(markdown).first_heading.as_deref(), title, "{markdown:?}");
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
            assert_eq!(render(markdown).first_heading.as_deref(), Some(title), "{markdown:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_heading_of_anything_is_one_line_that_shows_something(markdown in "(\\PC|[#=*_\\[\\]<>&`\\n ]|# |\n){0,200}") {
            if let Some(text) = render(&markdown).first_heading {
                proptest::prop_assert!(!text.contains(char::is_control) && !shows_nothing(&text), "{text:?}");
            }
        }
    }
}
