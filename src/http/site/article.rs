//! What a page for people changes in `content_html`, which it holds byte for byte otherwise (contract decision 13).

use crate::domain::html_text::{Piece, collapsed, element, pieces, visible_text};

/// `content_html` as the article of a page called `title`: without a leading heading that repeats the title, which stands
/// right above it, and with code blocks that the keyboard can reach, because a long line of code scrolls.
pub(super) fn article(content_html: &str, title: Option<&str>) -> String {
    let shown = title.map_or(content_html, |title| without_heading(content_html, title));
    // `<` begins a tag and nothing else: in text and in attributes it is written as a reference.
    shown.replace("<pre>", r#"<pre tabindex="0">"#)
}

/// `html` without the heading that it begins with, where that says what `title` does and is nothing but text.
fn without_heading<'a>(html: &'a str, title: &str) -> &'a str {
    let heading = ["h2", "h3", "h4"].into_iter().find_map(|name| {
        let inside = html.strip_prefix(&format!("<{name}>"))?;
        inside.split_once(&format!("</{name}>"))
    });
    let Some((heading, rest)) = heading else { return html };
    // A link or an image would be lost with the heading.
    let is_plain = |piece| match piece {
        Piece::Tag(tag) => ["em", "strong", "del", "code"].contains(&element(tag)),
        Piece::Text(_) | Piece::Character(_) => true,
    };
    let repeats = pieces(heading).all(is_plain) && visible_text(heading) == collapsed(title);
    if repeats { rest.trim_start_matches('\n') } else { html }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::markdown::render;

    fn article_of(markdown: &str, title: &str) -> String {
        article(&render(markdown).html, Some(title))
    }

    #[test]
    fn a_leading_heading_that_repeats_the_title_is_left_out() {
        for heading in
            ["# A  title & more", "## A *title* &amp; more", "#### `A` title & more #", "A title & more\n==="]
        {
            assert_eq!(article_of(&format!("{heading}\n\ntext"), "A title  & more"), "<p>text</p>\n", "{heading}");
        }
    }

    #[test]
    fn any_other_heading_stays() {
        for markdown in [
            "# Another",
            "text\n\n# A title",
            "# A title!",
            "# a title",
            "# [A title](/x)",
            "# A title![](https://a.example/x)",
        ] {
            let html = render(markdown).html;
            assert_eq!(article(&html, Some("A title")), html, "{markdown}");
            assert_eq!(article(&html, None), html, "{markdown}");
        }
        assert_eq!(article_of("# A title\n\n# A title", "A title"), "<h2>A title</h2>\n");
        assert_eq!(article("<h2>A title</h2>\n", None), "<h2>A title</h2>\n");
    }

    #[test]
    fn a_code_block_can_be_reached_by_the_keyboard() {
        assert_eq!(article_of("    code", "t"), "<pre tabindex=\"0\"><code>code</code></pre>\n");
        for markdown in ["<pre>", "`<pre>`", "![<pre>](https://a.example/%3Cpre%3E)", "[a](</<pre>>)"] {
            let html = render(markdown).html;
            assert!(!article(&html, None).contains("tabindex"), "{html}");
        }
    }
}
