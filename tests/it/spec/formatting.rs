//! The HTML that a page's Markdown becomes (spec §2.5; contract, decision 12).

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::Request;

/// The `content_html` of a page with this content.
async fn html_of(content: &str) -> String {
    let app = Setup::unlimited().start();
    let page = app.publish("T", content).await;
    app.page(&page.slug).await["content_html"].as_str().unwrap().to_owned()
}

/// Whether a page with this content is marked as not to be indexed, which its three views must agree on.
async fn is_marked_noindex(content: &str) -> bool {
    let app = TestApp::new();
    let page = app.publish("T", content).await;
    let html = app.get(&format!("/{}", page.slug)).await;
    let markdown = app.get(&format!("/{}.md", page.slug)).await;
    let negotiated = app.send(Request::get(format!("/{}", page.slug)).header("accept", "text/markdown")).await;
    let marked = html.header("x-robots-tag") == "noindex";
    assert_eq!(html.text().contains(r#"<meta name="robots" content="noindex">"#), marked, "{content}");
    assert_eq!(markdown.header("x-robots-tag") == "noindex", marked, "{content}");
    assert_eq!(negotiated.header("x-robots-tag") == "noindex", marked, "{content}");
    marked
}

#[tokio::test]
async fn the_constructs_of_the_subset_become_html() {
    for (markdown, element) in [
        ("A paragraph.", "<p>A paragraph.</p>"),
        ("**bold**", "<strong>bold</strong>"),
        ("*italic*", "<em>italic</em>"),
        ("~~gone~~", "<del>gone</del>"),
        ("- one\n- two", "<ul>"),
        ("1. one\n2. two", "<ol>"),
        ("> quoted", "<blockquote>"),
        ("`let x`", "<code>let x</code>"),
        ("```\nlet x\n```", "<pre><code>let x\n</code></pre>"),
        ("one\n\n---\n\ntwo", "<hr"),
        ("[text](https://a.example/)", "<a "),
        ("![alt](https://a.example/i.png)", "<img "),
    ] {
        let html = html_of(markdown).await;
        assert!(html.contains(element), "{markdown} became {html}");
    }
}

#[tokio::test]
async fn headings_are_of_levels_two_to_four() {
    for (hashes, element) in
        [("#", "h2"), ("##", "h2"), ("###", "h3"), ("####", "h4"), ("#####", "h4"), ("######", "h4")]
    {
        let html = html_of(&format!("{hashes} Title")).await;
        assert!(html.contains(&format!("<{element}>Title</{element}>")), "{hashes} became {html}");
    }
    assert!(html_of("Title\n=====").await.contains("<h2>Title</h2>"));
}

#[tokio::test]
async fn markdown_in_and_around_raw_html_is_formatted() {
    for (markdown, expected) in [
        ("<div>\n*a*\n</div>", "<p>&lt;div&gt;\n<em>a</em>\n&lt;/div&gt;</p>\n"),
        ("<p>*a*</p>\n*b*", "<p>&lt;p&gt;<em>a</em>&lt;/p&gt;\n<em>b</em></p>\n"),
        ("<p>\n\n*a*", "<p>&lt;p&gt;</p>\n<p><em>a</em></p>\n"),
        ("<!-- never closed\n\n# a\n\n*b*", "<p>&lt;!-- never closed</p>\n<h2>a</h2>\n<p><em>b</em></p>\n"),
        ("<!-- *a*\n*b* -->", "<p>&lt;!-- <em>a</em>\n<em>b</em> --&gt;</p>\n"),
        ("a <!-- *b*\n*c* --> d", "<p>a &lt;!-- <em>b</em>\n<em>c</em> --&gt; d</p>\n"),
        ("<script>\n\n**a**", "<p>&lt;script&gt;</p>\n<p><strong>a</strong></p>\n"),
        ("<pre>\n- a", "<p>&lt;pre&gt;</p>\n<ul>\n<li>a</li>\n</ul>\n"),
        ("<style>\n> a", "<p>&lt;style&gt;</p>\n<blockquote>\n<p>a</p>\n</blockquote>\n"),
        ("<textarea>\n\n`a`", "<p>&lt;textarea&gt;</p>\n<p><code>a</code></p>\n"),
        ("<?php *a* ?>\n*b*", "<p>&lt;?php <em>a</em> ?&gt;\n<em>b</em></p>\n"),
        ("<!DOCTYPE html>\n*a*", "<p>&lt;!DOCTYPE html&gt;\n<em>a</em></p>\n"),
        ("<![CDATA[\n\n*a*", "<p>&lt;![CDATA[</p>\n<p><em>a</em></p>\n"),
        (
            "<details>\n<summary>a</summary>\n\n*b*\n</details>",
            "<p>&lt;details&gt;\n&lt;summary&gt;a&lt;/summary&gt;</p>\n<p><em>b</em>\n&lt;/details&gt;</p>\n",
        ),
        ("<custom-tag>\n*a*", "<p>&lt;custom-tag&gt;\n<em>a</em></p>\n"),
        ("</div>\n[a](/b)", "<p>&lt;/div&gt;\n<a href=\"/b\" rel=\"nofollow ugc\">a</a></p>\n"),
        ("> <div>\n> *a*", "<blockquote>\n<p>&lt;div&gt;\n<em>a</em></p>\n</blockquote>\n"),
        ("1. <div>\n   *a*", "<ol>\n<li>&lt;div&gt;\n<em>a</em></li>\n</ol>\n"),
        ("a\n<div>\n*b*", "<p>a\n&lt;div&gt;\n<em>b</em></p>\n"),
        ("<div", "<p>&lt;div</p>\n"),
        ("```\n<div>\n<!-- a\n```", "<pre><code>&lt;div&gt;\n&lt;!-- a\n</code></pre>\n"),
        (
            "`<!-- a`\n\n    <!-- b\n    <p>",
            "<p><code>&lt;!-- a</code></p>\n<pre><code>&lt;!-- b\n&lt;p&gt;</code></pre>\n",
        ),
    ] {
        assert_eq!(html_of(markdown).await, expected, "from {markdown}");
    }
}

#[tokio::test]
async fn an_address_in_angle_brackets_is_a_link_at_the_beginning_too() {
    let link = r#"<a href="https://a.example/" rel="nofollow ugc">"#;
    assert_eq!(html_of("<https://a.example>\n*b*").await, format!("<p>{link}https://a.example</a>\n<em>b</em></p>\n"));
    assert_eq!(html_of("[a]\n\n[a]:\n<https://a.example>\n'title'").await, format!("<p>{link}a</a></p>\n"));
    assert_eq!(html_of("[a]\n\n[a]:\n<my address>").await, "<p>a</p>\n", "an address that is no link leaves its text");
    assert_eq!(html_of("[a](\n<https://a.example>)").await, format!("<p>{link}a</a></p>\n"));
}

#[tokio::test]
async fn a_table_is_its_source_as_a_code_block() {
    for (markdown, expected) in [
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<pre><code>| a   | b   |\n| --- | --- |\n| 1   | 2   |\n</code></pre>\n"),
        (
            "a|b\n:-|-:\n*1*|`2`\nrest\n\n*after*",
            "<pre><code>| a    | b   |\n| :--- | --: |\n| *1*  | `2` |\n| rest |\n</code></pre>\n<p><em>after</em></p>\n",
        ),
        (
            "*before*\n|a|b|\n|-|-|\n|c|<b>",
            "<p><em>before</em></p>\n<pre><code>| a | b   |\n| - | --- |\n| c | &lt;b&gt; |\n</code></pre>\n",
        ),
        (
            "> |a|\n> |-|\n> |&amp;|",
            "<blockquote>\n<pre><code>| a     |\n| ----- |\n| &amp;amp; |\n</code></pre>\n</blockquote>\n",
        ),
        (
            "- |a|\n  |-|\n  |b|\n- c",
            "<ul>\n<li>\n<pre><code>| a |\n| - |\n| b |\n</code></pre>\n</li>\n<li>c</li>\n</ul>\n",
        ),
        ("|a|\n|-|\n|b|\n---\nc", "<pre><code>| a |\n| - |\n| b |\n</code></pre>\n<hr>\n<p>c</p>\n"),
        ("|a|\n|-|\n# b", "<pre><code>| a |\n| - |\n</code></pre>\n<h2>b</h2>\n"),
        ("|a\\|b|c|\n|-|-|", "<pre><code>| a\\|b | c |\n| ---- | - |\n</code></pre>\n"),
    ] {
        assert_eq!(html_of(markdown).await, expected, "from {markdown}");
    }
}

#[tokio::test]
async fn lines_that_are_no_table_are_no_code() {
    for markdown in ["a | b", "|a|b|\n|-|", "a\n|-|-|", "|a|\n\n|-|", "a\n-\n", "a | b\n- | -", "# a | b\n--|--"] {
        assert!(!html_of(markdown).await.contains("<pre>"), "{markdown}");
    }
}

#[tokio::test]
async fn every_link_is_nofollow_and_ugc() {
    let links = "[a](https://a.example/) <https://b.example/> [c](/c) [d](#d) [e](mailto:e@example.org) [f]\n\n[f]: http://f.example/";
    let html = html_of(links).await;
    assert_eq!(html.matches("<a ").count(), 6, "{html}");
    assert_eq!(html.matches(r#"rel="nofollow ugc""#).count(), 6, "{html}");
    assert_eq!(html.matches("rel=").count(), 6, "{html}");
}

/// `text` as a link to `href`.
fn linked(href: &str, text: &str) -> String {
    format!(r#"<a href="{href}" rel="nofollow ugc">{text}</a>"#)
}

#[tokio::test]
async fn a_bare_web_address_is_a_link_as_github_finds_it() {
    let business = "https://encrypted.google.com/search?q=Markup+(business)";
    // The GFM specification's examples (§6.9), with `http://` where they have `www.`, which is text here.
    for (markdown, expected) in [
        ("http://commonmark.org".to_owned(), linked("http://commonmark.org/", "http://commonmark.org")),
        (
            "Visit http://commonmark.org/help for more information.".to_owned(),
            format!(
                "Visit {} for more information.",
                linked("http://commonmark.org/help", "http://commonmark.org/help")
            ),
        ),
        (
            "Visit http://commonmark.org/a.b.".to_owned(),
            format!("Visit {}.", linked("http://commonmark.org/a.b", "http://commonmark.org/a.b")),
        ),
        (format!("(Visit {business})"), format!("(Visit {})", linked(business, business))),
        (business.to_owned(), linked(business, business)),
        (format!("{business}))"), linked(business, business) + "))"),
        (format!("({business}"), format!("({}", linked(business, business))),
        (
            "http://google.com/search?q=(business))+ok".to_owned(),
            linked("http://google.com/search?q=(business))+ok", "http://google.com/search?q=(business))+ok"),
        ),
        (
            "http://google.com/search?q=commonmark&hl=en".to_owned(),
            linked(
                "http://google.com/search?q=commonmark&amp;hl=en",
                "http://google.com/search?q=commonmark&amp;hl=en",
            ),
        ),
        (
            "http://google.com/search?q=commonmark&hl;".to_owned(),
            linked("http://google.com/search?q=commonmark", "http://google.com/search?q=commonmark") + "&amp;hl;",
        ),
        (
            "http://google.com/search?q=commonmark&copy;".to_owned(),
            linked("http://google.com/search?q=commonmark", "http://google.com/search?q=commonmark") + "©",
        ),
        (
            "http://commonmark.org/he<lp".to_owned(),
            linked("http://commonmark.org/he", "http://commonmark.org/he") + "&lt;lp",
        ),
        ("**Autolink and http://inlines**".to_owned(), {
            format!("<strong>Autolink and {}</strong>", linked("http://inlines/", "http://inlines"))
        }),
        ("\"http://google.com\"".to_owned(), format!("\"{}\"", linked("http://google.com/", "http://google.com"))),
        ("'http://google.com'".to_owned(), format!("'{}'", linked("http://google.com/", "http://google.com"))),
        ("HTTPS://A.Example/B".to_owned(), linked("https://a.example/B", "HTTPS://A.Example/B")),
        ("http://a.example:8080/b, c".to_owned(), linked("http://a.example:8080/b", "http://a.example:8080/b") + ", c"),
    ] {
        assert_eq!(html_of(&markdown).await, format!("<p>{expected}</p>\n"), "from {markdown}");
    }
}

#[tokio::test]
async fn a_bare_address_may_hold_what_elsewhere_is_emphasis() {
    for address in [
        "https://a.example/src/__init__.py",
        "https://a.example/_b_/c",
        "https://a.example/~b/~c~d",
        "https://a.example/*b*c",
        "https://a.example/b_c_d",
    ] {
        let expected = linked(address, address);
        assert_eq!(html_of(address).await, format!("<p>{expected}</p>\n"));
        assert_eq!(
            html_of(&format!("**{address}**, *c*")).await,
            format!("<p><strong>{expected}</strong>, <em>c</em></p>\n")
        );
        assert_eq!(html_of(&format!("`{address}`")).await, format!("<p><code>{address}</code></p>\n"));
        assert_eq!(html_of(&format!("[x]({address})")).await, format!("<p>{}</p>\n", linked(address, "x")));
        let escaped = address.replace('_', "\\_");
        assert_eq!(html_of(&escaped).await, format!("<p>{expected}</p>\n"));
        assert_eq!(html_of(&format!("<{address}>*c*")).await, format!("<p>{expected}<em>c</em></p>\n"));
    }
}

#[tokio::test]
async fn text_that_only_resembles_a_bare_web_address_stays_text() {
    for markdown in [
        "www.commonmark.org",
        "foo@bar.example",
        "mailto:foo@bar.example",
        "ftp://foo.bar.example",
        "xhttp://a.example",
        "http://",
        "https://.",
        "http:// a.example",
        "http:/a.example",
        "http\\://a.example",
        "http://a_b.example_c",
        "https://[::1]/",
        "https://a.example:99999/",
        "https://bank.example@evil.example",
        "`https://a.example`",
        "    https://a.example",
        "[https://a.example](x:y)",
        "<x:https://a.example>",
        "<a href=\"https://a.example/\">",
        "![https://a.example](x:y)",
    ] {
        let html = html_of(markdown).await;
        assert!(!html.contains("<a "), "{markdown} became {html}");
    }
    let html = html_of("[https://a.example](/b)").await;
    assert_eq!(html.matches("<a ").count(), 1, "{html}");
}

#[tokio::test]
async fn an_address_that_holds_a_user_name_or_password_is_text() {
    for address in [
        "https://bank.example@evil.example",
        "https://a:b@evil.example/",
        "http://:b@evil.example/",
        "HTTPS:\\\\a@evil.example",
    ] {
        for markdown in [
            format!("[the text]({address})"),
            format!("[the text][r]\n\n[r]: {address}"),
            format!("![the text]({address})"),
        ] {
            assert_eq!(html_of(&markdown).await, "<p>the text</p>\n", "from {markdown}");
        }
        for markdown in [format!("<{address}>"), address.to_owned()] {
            assert!(!html_of(&markdown).await.contains("<a"), "{markdown}");
        }
    }
}

#[tokio::test]
async fn a_link_to_anything_but_the_web_or_mail_is_its_text() {
    for address in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "ftp://a.example/",
        "file:///etc/passwd",
        "relative",
        "relative/x",
        "../up",
        "?query",
        "",
        "tel:1",
        "//elsewhere.example/",
        "/.//elsewhere.example",
        "https://a.example:99999/",
        "/\\elsewhere.example/",
        "https://",
        "https://a b.example/",
    ] {
        let html = html_of(&format!("[the text](<{address}>)")).await;
        assert!(!html.contains("<a") && html.contains("the text"), "{address} became {html}");
    }
}

#[tokio::test]
async fn an_address_is_written_as_the_url_standard_serialises_it() {
    let html = html_of("[x](HTTPS://A.Example:443/b/../ä?q=\"<)").await;
    assert!(html.contains(r#"href="https://a.example/%C3%A4?q=%22%3C""#), "{html}");
}

#[tokio::test]
async fn an_image_is_of_https_and_any_other_is_its_alternative_text() {
    let html = html_of("![the text](https://a.example/i.png)").await;
    for attribute in [
        r#"src="https://a.example/i.png""#,
        r#"alt="the text""#,
        r#"loading="lazy""#,
        r#"referrerpolicy="no-referrer""#,
    ] {
        assert!(html.contains(attribute), "{html}");
    }
    for address in ["http://a.example/i.png", "/i.png", "data:image/png;base64,AAAA", "javascript:x", "i.png"] {
        let html = html_of(&format!("![the text]({address})")).await;
        assert!(!html.contains("<img") && html.contains("the text"), "{address} became {html}");
    }
}

#[tokio::test]
async fn no_element_has_a_class_but_the_language_of_code() {
    let html = html_of("```rust\nlet x\n```\n\n# Heading {#id .class}\n\n> quote").await;
    assert!(html.contains(r#"<code class="language-rust">"#), "{html}");
    assert_eq!(html.matches("class=").count(), 1, "{html}");
    assert!(!html.contains(" id=") && !html.contains(" style="), "{html}");
}

#[tokio::test]
async fn a_page_is_marked_noindex_exactly_when_it_links_elsewhere() {
    for content in [
        "[x](https://elsewhere.example/)",
        "[x](http://elsewhere.example/)",
        "<https://elsewhere.example/>",
        "[x](http://pages.example/)",
        "[x](https://pages.example:8443/)",
        "[x](https://pages.example.elsewhere.example/)",
        "a bare https://elsewhere.example/ address",
        "[x][1]\n\n[1]: https://elsewhere.example/",
        "[own](https://pages.example/) and [x](https://elsewhere.example/)",
        "[![image](https://pages.example/i.png)](https://elsewhere.example/)",
        "[x](/\\elsewhere.example) [y](https://elsewhere.example/)",
    ] {
        assert!(is_marked_noindex(content).await, "{content}");
    }
    for content in [
        "no link",
        "`[x](https://elsewhere.example/)`",
        "![an image](https://elsewhere.example/i.png)",
        "[x](https://pages.example/other)",
        "[x](HTTPS://Pages.Example:443/other)",
        "[x](/other) [y](#there) [z](mailto:a@elsewhere.example)",
        "[x](//elsewhere.example/)",
        "[x](https://pages.example@elsewhere.example/)",
        "[x](javascript:alert(1))",
        "[1]: https://elsewhere.example/",
        "<a href=\"https://elsewhere.example/\">x</a>",
    ] {
        assert!(!is_marked_noindex(content).await, "{content}");
    }
}

#[tokio::test]
async fn a_link_is_external_by_the_base_url_when_it_is_served() {
    let before = Setup::new().base_url("https://one.example").start();
    let after = Setup::new().base_url("https://two.example").over_the_store_of(&before).start();
    let page = before.publish("T", "[x](https://one.example/a)").await;
    assert!(!before.get(&format!("/{}", page.slug)).await.headers.contains_key("x-robots-tag"));
    assert_eq!(after.get(&format!("/{}", page.slug)).await.header("x-robots-tag"), "noindex");
}
