//! What a page for people changes in `content_html`, and its image. All else stays byte for byte (contract decision
//! 13).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use memchr::memmem;
use percent_encoding::percent_decode_str;

use handbill_pages::values::markdown::CODE_BLOCK;
use handbill_pages::values::plain_text::{collapsed, is_word, shorten};

/// Long lines scroll, so the keyboard must reach the block.
const FOCUSABLE_CODE_BLOCK: &str = r#"<pre tabindex="0">"#;

/// Far more than the longest title needs.
const MAX_HEADING_BYTES: usize = 16 * 1024;

/// An `id` with this prefix names nothing else.
const SECTION: &str = "section-";

/// Browsers lead there without an element of this name.
const TOP: &str = "top";

/// Thousands of short headings would become many times as large.
const MAX_SECTIONS: usize = 1000;

/// More addresses would make a list as long as the text.
const MAX_PRINTED_LINKS: usize = 1000;

/// Unicode scalar values.
const MAX_LINK_NAME: usize = 60;

/// A link whose text does not say where it leads, so that paper must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedLink {
    /// Empty for a picture.
    pub(super) name: String,
    /// A path is one of this site.
    pub(super) address: String,
}

/// The article: a leading heading that repeats the title is left out, code blocks get a `tabindex`, headings an `id` and
/// a link, and links to a heading lead to it.
///
/// Large pages are made for each reader, so they are searched a vector at a time, and copied only where they change.
pub(super) fn article<'a>(content_html: &'a str, code_blocks: &[u32], title: Option<&str>) -> Cow<'a, str> {
    let shown = title.map_or(content_html, |title| without_heading(content_html, title));
    let left_out = title.filter(|_| shown.len() < content_html.len());
    let html = with_reachable_code(content_html, shown, code_blocks);
    with_sections(&html, left_out).map_or(html, Cow::Owned)
}

fn with_sections(html: &str, left_out: Option<&str>) -> Option<String> {
    const LINK: &str = "<a href=\"#";
    // A `<` in text or an attribute is a reference.
    let headings = memmem::find_iter(html.as_bytes(), "<h").filter(|at| {
        let tag = &html.as_bytes()[at + "<h".len()..];
        matches!(tag, [b'2'..=b'4', b'>', ..])
    });
    let mut names = HashMap::new();
    let top = left_out.map(|title| free_name(title, &mut names));
    let mut changes = Vec::new();
    for at in headings.take(MAX_SECTIONS) {
        let (name, inside) = (at + "<h2".len(), at + "<h2>".len());
        let Some(end) = html[inside..].find("</h").map(|length| inside + length) else { break };
        let id = format!("{SECTION}{}", free_name(&text_of(&html[inside..end]), &mut names));
        let link = format!(r##"<a class="section" href="#{id}" aria-label="Link to this section" lang="en"></a>"##);
        changes.extend([(name..name, format!(r#" id="{id}""#)), (end..end, link)]);
    }
    if names.is_empty() {
        return None;
    }
    for at in memmem::find_iter(html.as_bytes(), LINK) {
        let start = at + LINK.len();
        let Some(end) = html[start..].find('"').map(|length| start + length) else { break };
        let name = lower_case(&percent_decode_str(&html[start..end]).decode_utf8_lossy());
        if top.as_ref() == Some(&name) {
            changes.push((start..end, TOP.to_owned()));
        } else if names.contains_key(&name) {
            changes.push((start..end, format!("{SECTION}{name}")));
        }
    }
    if changes.is_empty() {
        return None;
    }
    changes.sort_by_key(|(place, _)| place.start);
    let mut article = String::with_capacity(html.len() + changes.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut copied = 0;
    for (place, new) in changes {
        article.push_str(&html[copied..place.start]);
        article.push_str(&new);
        copied = place.end;
    }
    article.push_str(&html[copied..]);
    Some(article)
}

/// Each address once, with its first name, in the order of the text.
pub(super) fn named_links(content_html: &str) -> Vec<NamedLink> {
    const LINK: &str = "<a href=\"";
    let mut seen = HashSet::new();
    let starts = memmem::find_iter(content_html.as_bytes(), LINK).map(|at| &content_html[at + LINK.len()..]);
    let links = starts.filter_map(|link| {
        let (address, rest) = link.split_once('"')?;
        let (_, rest) = rest.split_once('>')?;
        let (text, _) = rest.split_once("</a>")?;
        (!address.starts_with('#')).then_some((address, text))
    });
    let named = links.filter_map(|(address, text)| {
        let (name, unescaped) = (collapsed(&text_of(text)), text_of(address));
        let is_listed = without_scheme(&name) != without_scheme(&unescaped) && seen.insert(address);
        is_listed.then(|| NamedLink { name: shorten(&name, MAX_LINK_NAME), address: unescaped })
    });
    named.take(MAX_PRINTED_LINKS).collect()
}

/// For comparisons: a link's text may be its address as people write it.
fn without_scheme(address: &str) -> String {
    let decoded = percent_decode_str(address.trim_end_matches('/')).decode_utf8_lossy();
    let rest = ["https://", "http://", "mailto:"].iter().find_map(|scheme| decoded.strip_prefix(scheme));
    rest.unwrap_or(&decoded).to_lowercase()
}

pub(super) fn text_of(heading: &str) -> String {
    // `<` and `>` in text or attributes are references.
    let text: String = heading.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    if !text.contains('&') {
        return text;
    }
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&nbsp;", "\u{a0}"), ("&amp;", "&")]
        .iter()
        .fold(text, |text, (escaped, character)| text.replace(escaped, character))
}

/// The name that GitHub would give a heading with this text, below those of `names`. Each of these has the number that
/// its last namesake got.
fn free_name(text: &str, names: &mut HashMap<String, usize>) -> String {
    let kept: String = text.chars().filter(|&c| matches!(c, ' ' | '-') || is_word(c)).collect();
    let name = lower_case(&kept).replace(' ', "-");
    let mut free = name.clone();
    while names.contains_key(&free) {
        let number = names.entry(name.clone()).or_default();
        *number += 1;
        free = format!("{name}-{number}");
    }
    names.insert(free.clone(), 0);
    free
}

/// As Ruby does it, letter by letter.
fn lower_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn with_reachable_code<'a>(content_html: &'a str, shown: &'a str, code_blocks: &[u32]) -> Cow<'a, str> {
    if code_blocks.is_empty() {
        return shown.into();
    }
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
    article.into()
}

/// Escaped for HTML. All images are `https`.
pub(super) fn first_image(content_html: &str) -> Option<&str> {
    // A `<` in text or an attribute is a reference.
    const IMAGE: &str = "<img src=\"";
    let at = memmem::find(content_html.as_bytes(), IMAGE.as_bytes())?;
    content_html[at + IMAGE.len()..].split_once('"').map(|(address, _)| address)
}

pub(super) fn without_heading<'a>(html: &'a str, title: &str) -> &'a str {
    let searched = &html[..html.floor_char_boundary(MAX_HEADING_BYTES)];
    let heading = ["h2", "h3", "h4"].into_iter().find_map(|name| {
        let inside = searched.strip_prefix(&format!("<{name}>"))?;
        inside.split_once(&format!("</{name}>"))
    });
    let Some((heading, after)) = heading else { return html };
    // A link or an image would be lost with the heading.
    let is_plain = !["<a ", "<img ", "<br>"].iter().any(|tag| heading.contains(tag));
    let repeats = is_plain && collapsed(&text_of(heading)) == collapsed(title);
    if repeats { html[searched.len() - after.len()..].trim_start_matches('\n') } else { html }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handbill_pages::values::markdown::render;

    /// The article without ids and links of headings, which have tests of their own.
    fn article(html: &str, code_blocks: &[u32], title: Option<&str>) -> String {
        let shown = title.map_or(html, |title| without_heading(html, title));
        with_reachable_code(html, shown, code_blocks).into_owned()
    }

    fn article_of(markdown: &str, title: &str) -> String {
        let rendered = render(markdown);
        article(&rendered.html, &rendered.code_blocks, Some(title))
    }

    fn ids(markdown: &str) -> Vec<String> {
        let article = super::article(&render(markdown).html, &[], None).into_owned();
        let ids = article.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        ids.inspect(|id| assert!(article.contains(&format!("href=\"#{id}\"")), "{article}")).collect()
    }

    #[test]
    fn a_heading_has_an_id_made_from_its_text_and_a_link_to_it() {
        assert_eq!(
            super::article("<p>a</p>\n<h3>A <em>b</em> &amp; c</h3>\n<hr>\n", &[], None),
            "<p>a</p>\n<h3 id=\"section-a-b--c\">A <em>b</em> &amp; c<a class=\"section\" href=\"#section-a-b--c\" \
             aria-label=\"Link to this section\" lang=\"en\"></a></h3>\n<hr>\n"
        );
        assert_eq!(
            ids("# Über uns\n\n> ## 第一章 한국어\n\n### ![](https://a.example/b)\n"),
            ["section-über-uns", "section-第一章-한국어", "section-"]
        );
    }

    #[test]
    fn the_ids_of_a_page_are_unique_letters_marks_and_digits() {
        assert_eq!(
            ids("# a\n# a 2\n# A\n# a\n# !\n# ?\n# \"><script>'&lt;\u{202e}x"),
            ["section-a", "section-a-2", "section-a-1", "section-a-3", "section-", "section--1", "section-scriptx"]
        );
    }

    #[test]
    fn a_link_leads_to_the_heading_that_github_gives_its_name() {
        fn led(markdown: &str) -> String {
            let article = super::article(&render(markdown).html, &[], Some("The Title")).into_owned();
            let links = article.split("<a href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
            links.collect::<Vec<_>>().join(" ")
        }
        for (heading, link, target) in [
            ("First section", "first-section", "section-first-section"),
            ("First section", "First-Section", "section-first-section"),
            ("What's *new* in `v1.2`?", "whats-new-in-v12", "section-whats-new-in-v12"),
            ("Tom & Jerry", "tom--jerry", "section-tom--jerry"),
            ("🚀 Go_now", "-go_now", "section--go_now"),
            ("Über uns", "über-uns", "section-über-uns"),
            ("हिन्दी", "हिन्दी", "section-हिन्दी"),
            ("m² x", "m-x", "section-m-x"),
            ("![alt](https://a.example/x) Logo", "-logo", "section--logo"),
            ("a\n\n## a", "a-1", "section-a-1"),
            ("a", "section-a", "section-a"),
            ("a", "b", "b"),
            ("a", "", ""),
        ] {
            assert_eq!(led(&format!("[x](#{link})\n\n## {heading}\n")), target, "{heading}");
        }
        let long = "long ".repeat(30);
        assert_eq!(led(&format!("# {long}\n[x](#{0})", long.trim().replace(' ', "-"))).len(), "section-".len() + 149);
        assert_eq!(
            led("# The Title\n\n[up](#the-title) [down](#the-title-1)\n\n## The title"),
            "top section-the-title-1"
        );
        assert_eq!(led("# The Title\n\n[up](#the-title)"), "top");
        assert_eq!(led("## [a](#b) b\n"), "b");
        assert_eq!(led("## [a](#a-b) b\n"), "section-a-b");
        assert_eq!(led("no heading [x](#a)"), "a");
    }

    #[test]
    fn only_the_first_headings_of_a_text_of_headings_have_a_link() {
        let html = render(&"# a\n".repeat(20_000)).html;
        let article = super::article(&html, &[], None);
        assert_eq!(article.matches(" id=").count(), MAX_SECTIONS);
        assert!(article.len() < html.len() + 200 * MAX_SECTIONS);
        assert_eq!(super::article("<h2>cut", &[], None), "<h2>cut");
    }

    #[test]
    fn a_heading_in_code_or_text_is_none() {
        for text in ["    <h2>x</h2>", "<h2>x</h2>", "`<h2>`", "![<h2>](https://a.example/%3Ch2%3E)", "---"] {
            assert_eq!(ids(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn paper_lists_once_each_address_that_no_text_says() {
        let listed = |markdown: &str| {
            let links = named_links(&render(markdown).html).into_iter();
            links.map(|NamedLink { name, address }| format!("{name}: {address}")).collect::<Vec<_>>().join("; ")
        };
        for (markdown, expected) in [
            ("[*a*  `b`](https://a.example/?b&c \"t\")", "a b: https://a.example/?b&c"),
            ("[a](/b) [c](#d) [e](mailto:f@g.example)", "a: /b; e: mailto:f@g.example"),
            ("[b](/x) and [c](/x)", "b: /x"),
            ("[![alt](https://a.example/p)](/x)", ": /x"),
            ("https://A.example https://a.example/b%20c <f@g.example> http://a.example/第?x=a&b.", ""),
            (
                "[a.example](https://a.example/) [https://a.example](https://b.example/)",
                "https://a.example: https://b.example/",
            ),
            ("[`<a href=\"/x\">`&amp;](mailto:\"a<b@c.example)", "<a href=\"/x\">&: mailto:\"a<b@c.example"),
            ("`[a](/b)` <a href=\"/b\">c</a>", ""),
        ] {
            assert_eq!(listed(markdown), expected, "{markdown}");
        }
        assert_eq!(named_links(&render(&format!("[{}](/x)", "word ".repeat(50))).html)[0].name.chars().count(), 60);
        let many = (0..2000).fold(String::new(), |text, n| text + &format!("[a](/{n})"));
        assert_eq!(named_links(&render(&many).html).len(), MAX_PRINTED_LINKS);
        assert_eq!(named_links("<a href=\"/x"), []);
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
    fn every_code_block_can_be_reached_and_wrong_offsets_do_nothing() {
        let rendered = render("# t\n\n    a\n\nb\n\n```\nc\n```\n\n> é\n>\n>     d");
        for title in [None, Some("t"), Some("u")] {
            let reachable = article(&rendered.html, &rendered.code_blocks, title);
            assert_eq!(reachable.replace(r#" tabindex="0""#, ""), article(&rendered.html, &[], title));
            assert_eq!(reachable.matches(FOCUSABLE_CODE_BLOCK).count(), 3, "{reachable}");
        }
        for offset in (0..100).chain([u32::MAX]).filter(|offset| !rendered.code_blocks.contains(offset)) {
            assert_eq!(article(&rendered.html, &[offset, 0], None), rendered.html, "{offset}");
        }
    }

    #[test]
    fn the_first_image_and_no_text_like_one_stands_for_the_page() {
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
