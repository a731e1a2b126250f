//! The two changes that a page for people makes to `content_html`, and the image that stands for the page elsewhere.
//! Everything else stays byte for byte (contract decision 13).

use crate::domain::html_text::{Piece, collapsed, element, pieces, visible_text};
use crate::domain::markdown::CODE_BLOCK;

/// The first tag of a code block on the page. Long lines of code scroll, so the keyboard must reach the block.
const FOCUSABLE_CODE_BLOCK: &str = r#"<pre tabindex="0">"#;

/// A heading is compared with the title only if it has at most this much HTML, in bytes: far more than the longest title
/// needs.
const MAX_HEADING_BYTES: usize = 16 * 1024;

/// `content_html` as the article of a page called `title`. A leading heading that repeats the title is left out, because the
/// title is right above it. The tags at `code_blocks` get a `tabindex`.
///
/// Only the leading heading is searched; the rest of the HTML is copied.
pub(super) fn article(content_html: &str, code_blocks: &[u32], title: Option<&str>) -> String {
    let shown = title.map_or(content_html, |title| without_heading(content_html, title));
    let mut article = String::with_capacity(shown.len() + code_blocks.len() * FOCUSABLE_CODE_BLOCK.len());
    let mut copied = content_html.len() - shown.len();
    for at in code_blocks.iter().filter_map(|&at| usize::try_from(at).ok()) {
        // Offsets that do not fit this HTML are ignored.
        if let (Some(before), Some(CODE_BLOCK)) =
            (content_html.get(copied..at), content_html.get(at..at + CODE_BLOCK.len()))
        {
            article.push_str(before);
            article.push_str(FOCUSABLE_CODE_BLOCK);
            copied = at + CODE_BLOCK.len();
        }
    }
    article.push_str(&content_html[copied..]);
    article
}

/// The address of the first image in `content_html`, escaped for HTML as it is there. All images are `https`.
pub(super) fn first_image(content_html: &str) -> Option<&str> {
    // A `<` in text or in an attribute is a reference, so this begins a tag.
    let (_, address) = content_html.split_once("<img src=\"")?;
    address.split_once('"').map(|(address, _)| address)
}

/// `html` without its first heading, if that heading has the same text as `title` and contains no link or image.
fn without_heading<'a>(html: &'a str, title: &str) -> &'a str {
    let searched = &html[..html.floor_char_boundary(MAX_HEADING_BYTES)];
    let heading = ["h2", "h3", "h4"].into_iter().find_map(|name| {
        let inside = searched.strip_prefix(&format!("<{name}>"))?;
        inside.split_once(&format!("</{name}>"))
    });
    let Some((heading, after)) = heading else { return html };
    // A link or an image would be lost with the heading.
    let is_plain = |piece| match piece {
        Piece::Tag(tag) => ["em", "strong", "del", "code"].contains(&element(tag)),
        Piece::Text(_) | Piece::Character(_) => true,
    };
    let repeats = pieces(heading).all(is_plain) && visible_text(heading) == collapsed(title);
    if repeats { html[searched.len() - after.len()..].trim_start_matches('\n') } else { html }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::markdown::render;

    fn article_of(markdown: &str, title: &str) -> String {
        let rendered = render(markdown);
        article(&rendered.html, &rendered.code_blocks, Some(title))
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
            assert_eq!(article(&html, &[], Some("A title")), html, "{markdown}");
            assert_eq!(article(&html, &[], None), html, "{markdown}");
        }
        assert_eq!(article_of("# A title\n\n# A title", "A title"), "<h2>A title</h2>\n");
        assert_eq!(article("<h2>A title</h2>\n", &[], None), "<h2>A title</h2>\n");
    }

    #[test]
    fn a_code_block_can_be_reached_by_the_keyboard() {
        assert_eq!(article_of("    code", "t"), "<pre tabindex=\"0\"><code>code</code></pre>\n");
        for markdown in ["<pre>", "`<pre>`", "![<pre>](https://a.example/%3Cpre%3E)", "[a](</<pre>>)"] {
            let rendered = render(markdown);
            let article = article(&rendered.html, &rendered.code_blocks, None);
            assert!(!article.contains("tabindex"), "{article}");
        }
    }

    #[test]
    fn every_code_block_can_be_reached_and_offsets_of_other_html_change_nothing() {
        let rendered = render("# t\n\n    a\n\nb\n\n```\nc\n```\n\n> é\n>\n>     d");
        for title in [None, Some("t"), Some("u")] {
            let article = article(&rendered.html, &rendered.code_blocks, title);
            assert_eq!(article.replace(r#" tabindex="0""#, ""), super::article(&rendered.html, &[], title));
            assert_eq!(article.matches(FOCUSABLE_CODE_BLOCK).count(), 3, "{article}");
        }
        for offset in (0..100).chain([u32::MAX]).filter(|offset| !rendered.code_blocks.contains(offset)) {
            assert_eq!(article(&rendered.html, &[offset, 0], None), rendered.html, "{offset}");
        }
    }

    #[test]
    fn the_first_image_stands_for_the_page_and_text_that_resembles_one_does_not() {
        for (markdown, expected) in [
            ("a ![b](https://a.example/c?d&e) ![f](https://a.example/g)", Some("https://a.example/c?d&amp;e")),
            ("![a](http://a.example/b) [![](https://a.example/c)](/d)", Some("https://a.example/c")),
            ("`<img src=\"https://a.example/b\">`", None),
            ("<img src=\"https://a.example/b\">", None),
            ("![<img src=\"https://a.example/b\">](https://a.example/c)", Some("https://a.example/c")),
            ("text", None),
        ] {
            assert_eq!(first_image(&render(markdown).html), expected, "{markdown}");
        }
    }

    #[test]
    fn a_heading_of_any_size_is_compared_in_bounded_time() {
        let heading = |size| format!("<h2>A{}title</h2>\n<p>text</p>\n", " ".repeat(size));
        assert_eq!(article(&heading(10_000), &[], Some("A title")), "<p>text</p>\n");
        assert_eq!(article(&heading(20_000), &[], Some("A title")), heading(20_000));
    }

    proptest::proptest! {
        #[test]
        fn the_offsets_of_the_renderer_lead_to_every_code_block(
            markdown in "([a<>é|>#-]|<pre>|\\n|    x\\n|```\\n|~~~\\n|- |> ){0,60}",
        ) {
            let rendered = render(&markdown);
            let found = rendered.html.replace(CODE_BLOCK, FOCUSABLE_CODE_BLOCK);
            proptest::prop_assert_eq!(article(&rendered.html, &rendered.code_blocks, None), found);
        }
    }
}
