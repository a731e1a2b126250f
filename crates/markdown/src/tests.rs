//! The HTML of each construct of Markdown.

use super::{filter, html, render};

#[track_caller]
fn assert_renders(markdown: &str, expected: &str) {
    assert_eq!(render(markdown).html, expected, "from {markdown:?}");
}

#[test]
fn headings_are_nested_under_the_title_and_end_at_h4() {
    assert_renders("# a", "<h2>a</h2>\n");
    assert_renders("## a", "<h2>a</h2>\n");
    assert_renders("### a", "<h3>a</h3>\n");
    assert_renders("#### a", "<h4>a</h4>\n");
    assert_renders("##### a", "<h4>a</h4>\n");
    assert_renders("###### a", "<h4>a</h4>\n");
    assert_renders("a\n=\n\nb\n-", "<h2>a</h2>\n<h2>b</h2>\n");
    assert_renders("# a *b* {#id .class}", "<h2>a <em>b</em> {#id .class}</h2>\n");
}

#[test]
fn paragraphs_keep_their_line_breaks_and_hard_ones_are_elements() {
    assert_renders("a\nb\n\nc", "<p>a\nb</p>\n<p>c</p>\n");
    assert_renders("a  \nb\\\nc", "<p>a<br>\nb<br>\nc</p>\n");
    assert_renders("a\rb\r\rc\r\n\r\nd", "<p>a\nb</p>\n<p>c</p>\n<p>d</p>\n");
    assert_renders("a&#13;b", "<p>a\nb</p>\n");
}

#[test]
fn emphasis_is_em_strong_and_del() {
    assert_renders(
        "*a* _b_ **c** __d__ ~~e~~ ~f~",
        "<p><em>a</em> <em>b</em> <strong>c</strong> <strong>d</strong> <del>e</del> <del>f</del></p>\n",
    );
    assert_renders("***a***", "<p><em><strong>a</strong></em></p>\n");
    assert_renders("*a **b*", "<p>*a *<em>b</em></p>\n");
}

#[test]
fn tight_lists_have_no_paragraphs_and_loose_lists_have() {
    assert_renders("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n");
    assert_renders("- a\n\n- b", "<ul>\n<li>\n<p>a</p>\n</li>\n<li>\n<p>b</p>\n</li>\n</ul>\n");
    assert_renders("- a\n  1. b\n- c", "<ul>\n<li>a\n<ol>\n<li>b</li>\n</ol>\n</li>\n<li>c</li>\n</ul>\n");
}

#[test]
fn ordered_lists_keep_the_number_that_they_begin_with() {
    assert_renders("1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n");
    assert_renders("0) a", "<ol start=\"0\">\n<li>a</li>\n</ol>\n");
    assert_renders("123456789. a", "<ol start=\"123456789\">\n<li>a</li>\n</ol>\n");
    assert_renders("1234567890. a", "<p>1234567890. a</p>\n");
}

#[test]
fn quotes_nest() {
    assert_renders(
        "> a\n>> b\n\nc",
        "<blockquote>\n<p>a</p>\n<blockquote>\n<p>b</p>\n</blockquote>\n</blockquote>\n<p>c</p>\n",
    );
    assert_renders("> [!NOTE]\n> a", "<blockquote>\n<p>[!NOTE]\na</p>\n</blockquote>\n");
}

#[test]
fn code_is_verbatim() {
    assert_renders("`a < b && \"c\"`", "<p><code>a &lt; b &amp;&amp; \"c\"</code></p>\n");
    assert_renders("    a\n\n    *b*", "<pre><code>a\n\n*b*</code></pre>\n");
    assert_renders("```\n\n&amp;\n```", "<pre><code>\n&amp;amp;\n</code></pre>\n");
    assert_renders("~~~\na", "<pre><code>a</code></pre>\n");
}

#[test]
fn a_fence_with_a_plain_name_has_its_language_as_a_class() {
    assert_renders("```rust\na\n```", "<pre><code class=\"language-rust\">a\n</code></pre>\n");
    assert_renders("``` c++,ignore x\na\n```", "<pre><code class=\"language-c++\">a\n</code></pre>\n");
    assert_renders("```&amp;\na\n```", "<pre><code>a\n</code></pre>\n");
    assert_renders("```a\"b\na\n```", "<pre><code>a\n</code></pre>\n");
    assert_renders("```é\na\n```", "<pre><code>a\n</code></pre>\n");
    let (longest, longer) = ("a".repeat(32), "a".repeat(33));
    assert_renders(&format!("```{longest}\n```"), &format!("<pre><code class=\"language-{longest}\"></code></pre>\n"));
    assert_renders(&format!("```{longer}\n```"), "<pre><code></code></pre>\n");
}

#[test]
fn thematic_breaks_are_rules_of_any_length() {
    assert_renders("a\n\n***\n\nb", "<p>a</p>\n<hr>\n<p>b</p>\n");
    for rule in ["- ".repeat(1000), "* ".repeat(1000), "-".repeat(1000), "_ ".repeat(1000)] {
        assert_renders(&rule, "<hr>\n");
        assert_renders(&format!("> {rule}"), "<blockquote>\n<hr>\n</blockquote>\n");
    }
}

#[test]
fn links_lead_to_the_web_to_mail_and_within_the_site() {
    fn link(href: &str) -> String {
        format!("<p><a href=\"{href}\" rel=\"nofollow ugc\">a</a></p>\n")
    }

    assert_renders("[a](https://e.example)", &link("https://e.example/"));
    assert_renders("[a](HTTP://E.Example:80/x?y&z#w \"title\")", &link("http://e.example/x?y&amp;z#w"));
    assert_renders("[a](https://@e.example/)", &link("https://e.example/"));
    assert_renders("[a](https://é.example/é)", &link("https://xn--9ca.example/%C3%A9"));
    assert_renders("[a](https:e.example)", &link("https://e.example/"));
    assert_renders("[a](mailto:x@e.example?subject=y)", &link("mailto:x@e.example?subject=y"));
    assert_renders("[a](#x)", &link("#x"));
    assert_renders("[a](#)", &link("#"));
    assert_renders("[a](/x/../y?z#w)", &link("/y?z#w"));
    assert_renders("[a](/)", &link("/"));
    assert_renders("[a]\n\n[A]: <https://e.example/x y> 'title'", &link("https://e.example/x%20y"));
    assert_renders("[*a*](/x)", "<p><a href=\"/x\" rel=\"nofollow ugc\"><em>a</em></a></p>\n");
}

#[test]
fn addresses_in_angle_brackets_and_bare_ones_are_links() {
    assert_renders(
        "<https://e.example/x> <x@e.example>",
        "<p><a href=\"https://e.example/x\" rel=\"nofollow ugc\">https://e.example/x</a> \
         <a href=\"mailto:x@e.example\" rel=\"nofollow ugc\">x@e.example</a></p>\n",
    );
    assert_renders(
        "https://e.example www.e.example",
        "<p><a href=\"https://e.example/\" rel=\"nofollow ugc\">https://e.example</a> www.e.example</p>\n",
    );
    assert_renders(
        "*https://e.example*.",
        "<p><em><a href=\"https://e.example/\" rel=\"nofollow ugc\">https://e.example</a></em>.</p>\n",
    );
    assert_renders(
        "&lt;https://e.example&gt;",
        "<p>&lt;<a href=\"https://e.example/\" rel=\"nofollow ugc\">https://e.example</a>&gt;</p>\n",
    );
    assert_renders("<ftp:x>", "<p>ftp:x</p>\n");
    let link = "<p><a href=\"https://e.example/\" rel=\"nofollow ugc\">a</a></p>\n";
    assert_renders("[a]\n\n[a]:\n<https://e.example>\n'title'", link);
    assert_renders("[a](\n<https://e.example>)", link);
    assert_renders("[a]\n\n[a]:\n<my address>", "<p>a</p>\n");
}

#[test]
fn a_placeholder_or_a_reference_to_one_is_replaced() {
    for number in 0xfdd0..=0xfdd8 {
        let character = char::from_u32(number).unwrap();
        for written in
            [character.to_string(), format!("&#x{number:X};"), format!("&#x00{number:x};"), format!("&#{number};")]
        {
            assert_renders(&format!("a{written}*b*"), "<p>a\u{fffd}<em>b</em></p>\n");
            assert_renders(
                &format!("![{written}](https://e.example/)"),
                "<p><img src=\"https://e.example/\" alt=\"\u{fffd}\" loading=\"lazy\" referrerpolicy=\"no-referrer\"></p>\n",
            );
            let link = "<p><a href=\"/x%EF%BF%BDy_z\" rel=\"nofollow ugc\">a</a></p>\n";
            assert_renders(&format!("[a](/x{written}y_z)"), link);
            assert_renders(&format!("[a]\n\n[a]: /x{written}y_z"), link);
        }
    }
}

#[test]
fn such_a_reference_leaves_code_and_other_addresses() {
    assert_renders("`&#xFDD0;`", "<p><code>&amp;#xFDD0;</code></p>\n");
    assert_renders("    &#xFDD0;", "<pre><code>&amp;#xFDD0;</code></pre>\n");
    assert_renders("\\&#xFDD0;", "<p>&amp;#xFDD0;</p>\n");
    assert_renders(
        "&#xFDD0; [a](https://e.example/x_y*z)",
        "<p>\u{fffd} <a href=\"https://e.example/x_y*z\" rel=\"nofollow ugc\">a</a></p>\n",
    );
}

#[test]
fn a_reference_to_a_placeholder_ends_an_address() {
    for (shown, address) in
        [("https://e.example", "https://e.example/"), ("https://e.example/x", "https://e.example/x")]
    {
        for reference in ["&#xFDD1;", "&#64977;", "&#xFDD1;&#xFDD1;"] {
            let link = format!("<a href=\"{address}\" rel=\"nofollow ugc\">{shown}</a>");
            let replaced = "\u{fffd}".repeat(reference.matches('&').count());
            assert_renders(&format!("{shown}{reference}"), &format!("<p>{link}{replaced}</p>\n"));
            assert_renders(&format!("({shown}{reference}.)"), &format!("<p>({link}{replaced}.)</p>\n"));
            assert_renders(&format!("{shown}&gt;{reference} b"), &format!("<p>{link}&gt;{replaced} b</p>\n"));
        }
    }
}

#[test]
fn images_are_https_and_any_other_is_its_alternative_text() {
    fn image(alt: &str) -> String {
        format!(
            "<p><img src=\"https://e.example/x.png\" alt=\"{alt}\" loading=\"lazy\" referrerpolicy=\"no-referrer\"></p>\n"
        )
    }

    assert_renders("![a](https://e.example/x.png 'title')", &image("a"));
    assert_renders("![](https://e.example/x.png)", &image(""));
    assert_renders("![*a* `b` \"c\" [d](/e) ![f](/g)\nh](https://e.example/x.png)", &image("a b &quot;c&quot; d f\nh"));
    for address in ["http://e.example/x.png", "/x.png", "data:image/png,x", "#x", "mailto:x@e.example", "x"] {
        assert_renders(&format!("![a *b*]({address})"), "<p>a b</p>\n");
    }
}

#[test]
fn an_image_may_be_what_a_link_shows() {
    let image = "<img src=\"https://e.example/x\" alt=\"a\" loading=\"lazy\" referrerpolicy=\"no-referrer\">";
    assert_renders(
        "[![a](https://e.example/x)](/y)",
        &format!("<p><a href=\"/y\" rel=\"nofollow ugc\">{image}</a></p>\n"),
    );
    assert_renders("[![a](https://e.example/x)](x:y)", &format!("<p>{image}</p>\n"));
}

#[test]
fn raw_html_is_text() {
    assert_renders("a <b>c</b> <!-- d -->", "<p>a &lt;b&gt;c&lt;/b&gt; &lt;!-- d --&gt;</p>\n");
    assert_renders("<div>\n*a*\n</div>\n\n*b*", "<p>&lt;div&gt;\n<em>a</em>\n&lt;/div&gt;</p>\n<p><em>b</em></p>\n");
    assert_renders("- <hr>", "<ul>\n<li>&lt;hr&gt;</li>\n</ul>\n");
    assert_renders("&lt;b&gt; &amp;amp; &copy; &nope;", "<p>&lt;b&gt; &amp;amp; © &amp;nope;</p>\n");
}

#[test]
fn no_line_begins_raw_html_even_after_an_open_address() {
    assert_renders("# [a](\n<b c>\n*d*", "<h2>[a](</h2>\n<p>&lt;b c&gt;\n<em>d</em></p>\n");
    assert_renders("    [a]:\n<b c>\n*d*", "<pre><code>[a]:\n</code></pre>\n<p>&lt;b c&gt;\n<em>d</em></p>\n");
    for tag in ["<div>", "<b>", "</p>", "<!--", "<?x", "<!A", "<![CDATA[", "<script>", "<x-y z>"] {
        for before in ["", "a\n", "> ", "- ", "1. > - ", "# a\n", "```\n```\n", "[a]:\n", "***\n", "   "] {
            let html = filter(&format!("{before}{tag}\n**b**")).html;
            assert!(html.contains("<strong>b</strong>"), "{before:?} {tag}: {html}");
        }
    }
}

#[test]
fn constructs_outside_the_subset_are_text() {
    assert_renders("|a|b|\n|-|-|\n|c|d|", "<pre><code>| a | b |\n| - | - |\n| c | d |\n</code></pre>\n");
    assert_renders("- [ ] a\n- [x] b", "<ul>\n<li>[ ] a</li>\n<li>[x] b</li>\n</ul>\n");
    assert_renders("a[^1] $b$ ^c^ :d:\n\n[^1]: e f", "<p>a[^1] $b$ ^c^ :d:</p>\n<p>[^1]: e f</p>\n");
    assert_renders("---\na: b\n---\n", "<hr>\n<h2>a: b</h2>\n");
    assert_renders("a\n: b", "<p>a\n: b</p>\n");
}

#[test]
fn a_footnote_is_text_even_if_it_could_be_an_address() {
    assert_renders("a[^1]\n\n[^1]: /b", "<p>a[^1]</p>\n<p>[^1]: /b</p>\n");
    assert_renders("> - [^n]: b", "<blockquote>\n<ul>\n<li>[^n]: b</li>\n</ul>\n</blockquote>\n");
    assert_renders("`a\n[^1]: b`\n\n    [^1]: c", "<p><code>a [^1]: b</code></p>\n<pre><code>[^1]: c</code></pre>\n");
    assert_renders("[^1](/b)", "<p><a href=\"/b\" rel=\"nofollow ugc\">^1</a></p>\n");
}

#[test]
fn a_byte_order_mark_hides_no_heading() {
    assert_renders("\u{feff}# a", "<h2>a</h2>\n");
}

#[test]
fn markers_of_lists_and_quotes_are_text_after_256_columns() {
    fn quotes(count: usize) -> String {
        render(&(">".repeat(count) + "a")).html
    }

    assert!(!quotes(256).contains("&gt;"));
    assert!(quotes(258).contains("\n&gt;&gt;a\n"), "{}", quotes(258));
    // A marker as far right within code stays code.
    let line = format!("{}- a", " ".repeat(300));
    assert_renders(&format!("```\n{line}\n```"), &format!("<pre><code>{line}\n</code></pre>\n"));
}

#[test]
fn what_is_nested_deeper_than_32_elements_is_flattened() {
    let list = render(&("- ".repeat(20) + "a\n\n  b")).html;
    assert_eq!(list.matches("<ul>").count(), 16, "{list}");
    let quote = render(&format!("{}a **b** `c` ![d](https://e.example/) [f](/g)\n", ">".repeat(40))).html;
    let inside = format!("{}\na b c d f\n", "<blockquote>\n".repeat(32).trim_end());
    assert_eq!(quote, inside + "</blockquote>\n".repeat(32).as_str());
}

#[test]
fn after_50_000_elements_only_text_is_kept() {
    let html = render(&("***\n".repeat(51_000) + "*end*")).html;
    assert_eq!(html.matches("<hr>").count(), 50_000);
    assert!(html.ends_with("<hr>\nend\n"), "{}", &html[html.len() - 100..]);
}

#[test]
fn beyond_64_kb_and_six_times_the_source_only_text_is_kept() {
    let source = (">".repeat(30) + "a\n\n").repeat(3000) + "*end*";
    let html = render(&source).html;
    assert!(html.len() <= html::max_bytes(source.len()), "{} bytes", html.len());
    assert!(html.len() > html::max_bytes(source.len()) / 2, "{} bytes", html.len());
    let text: String = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    assert_eq!(text.matches('a').count(), 3000);
    assert!(text.trim_end().ends_with("end"), "{}", &text[text.len() - 100..]);
}

#[test]
fn a_table_in_place_of_any_paragraph_is_shown_as_source() {
    fn table(rows: &str) -> String {
        format!("<pre><code>{rows}\n</code></pre>\n")
    }

    assert_renders("\\|a|b\n-|-", &table("| \\|a | b |\n| --- | - |"));
    assert_renders("a\\|b|c\n-|-", &table("| a\\|b | c |\n| ---- | - |"));
    assert_renders(
        "a **b\nc** d|e\n-|-\nf",
        &("<p>a <strong>b</strong></p>\n".to_owned() + &table("| c** d | e |\n| ----- | - |\n| f     |")),
    );
    assert_renders("|a|\n|-|\n===", &table("| a   |\n| --- |\n| === |"));
    assert_renders("a\n|b|\n|-|\n---\n*c*", &format!("<p>a</p>\n{}<hr>\n<p><em>c</em></p>\n", table("| b |\n| - |")));
    assert_renders(
        "> - |a|\n>   |:-|\n>\n> b",
        &format!("<blockquote>\n<ul>\n<li>\n{}</li>\n</ul>\n<p>b</p>\n</blockquote>\n", table("| a  |\n| :- |")),
    );
    assert_renders("|a|\r\n|-|\r\n|b|\r\n\r\nc", &format!("{}<p>c</p>\n", table("| a |\n| - |\n| b |")));
    assert_renders(
        "|[a](/b)|<c>|\n|-|-|\n<div>|&amp;",
        &table("| [a](/b) | &lt;c&gt;   |\n| ------- | ----- |\n| &lt;div&gt;   | &amp;amp; |"),
    );
    assert_renders(
        "![a|b\n-|-](https:c)",
        "<p><img src=\"https://c/\" alt=\"a|b\n-|-\" loading=\"lazy\" referrerpolicy=\"no-referrer\"></p>\n",
    );
}

#[test]
fn a_link_or_image_with_a_value_over_8_kb_is_text() {
    for (bytes, is_element) in [(8 * 1024, true), (8 * 1024 + 1, false)] {
        let (address, alt) = (format!("https://a.example/{}", "b".repeat(bytes - 18)), "c".repeat(bytes));
        assert_eq!(render(&format!("[d]({address})")).html.contains("<a "), is_element, "{bytes}");
        assert_eq!(render(&format!("![d]({address})")).html.contains("<img "), is_element, "{bytes}");
        assert_eq!(render(&format!("![{alt}](https://a.example/)")).html.contains("<img "), is_element, "{bytes}");
    }
}

#[test]
fn only_the_first_two_origins_of_links_are_kept() {
    fn origins(markdown: &str) -> Vec<String> {
        render(markdown).link_origins
    }

    assert_eq!(
        origins("<https://a.example/1> <https://A.example:443/2> [b](http://b.example) [c](https://c.example)"),
        ["https://a.example", "http://b.example"]
    );
    assert!(
        origins("![a](https://a.example/) [b](/b) [c](mailto:c@c.example) [d](#d) [e](ftp://e.example)").is_empty()
    );
    assert!(origins("![[a](https://a.example)](https://b.example)").is_empty());
}
