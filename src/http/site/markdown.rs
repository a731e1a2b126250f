//! A page's Markdown for a reader who asks with `Accept`, and may see nothing else of the page: it begins with the title
//! (contract, decision 13).

use std::borrow::Cow;

use super::article::without_heading;
use handbill_pages::values::{markdown::front_matter::without_front_matter, page::Page};

/// The source without front matter, after the title as a heading, unless the text begins with a heading that repeats the
/// title.
pub(super) fn with_title(page: &Page) -> Cow<'_, str> {
    let source = without_front_matter(page.text.content.as_str());
    match page.head.state.details.title() {
        Some(title) if without_heading(&page.text.html, title).len() == page.text.html.len() => {
            format!("# {}\n\n{source}", escaped(title)).into()
        }
        _ => source.into(),
    }
}

/// `title` as Markdown that shows it.
fn escaped(title: &str) -> String {
    let mut markdown = String::with_capacity(title.len() + 8);
    for (at, character) in title.char_indices() {
        let rest = &title[at..];
        let is_markup = match character {
            '\\' | '`' | '*' | '_' | '~' | '[' | '<' => true,
            // The end of a heading may repeat its sign.
            '#' => rest.trim_matches('#').trim_start().is_empty(),
            // A character reference ends with a semicolon.
            '&' => rest.contains(';'),
            _ => false,
        };
        if is_markup {
            markdown.push('\\');
        }
        markdown.push(character);
    }
    markdown
}

#[cfg(test)]
mod tests {
    use super::super::article::text_of;
    use super::*;
    use handbill_pages::values::markdown::render;
    use handbill_pages::values::plain_text::collapsed;

    #[test]
    fn only_what_would_be_markup_is_escaped() {
        for (title, markdown) in [
            ("C# & Rust: 2 > 1 (a-b).", "C# & Rust: 2 > 1 (a-b)."),
            ("a_b *c* `d` ~e~ [f](g) <h> \\", r"a\_b \*c\* \`d\` \~e\~ \[f](g) \<h> \\"),
            ("About C ##", r"About C \#\#"),
            ("AT&T; &amp;", r"AT\&T; \&amp;"),
        ] {
            assert_eq!(escaped(title), markdown);
        }
    }

    proptest::proptest! {
        #[test]
        fn an_escaped_title_reads_as_the_title(
            title in "[!-~é第]([ -~é第]{0,30}[!-~é第])?|https?://[a-z]\\.[a-z]{2}/[!-~]{0,10}",
        ) {
            let html = render(&format!("# {}\n\ntext", escaped(&title))).html;
            let heading = html.strip_prefix("<h2>").and_then(|rest| rest.split_once("</h2>\n<p>text</p>"));
            proptest::prop_assert_eq!(heading.map(|(heading, _)| collapsed(&text_of(heading))), Some(collapsed(&title)), "{}", html);
        }
    }
}
