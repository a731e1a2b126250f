//! What becomes of a page's Markdown (spec §2.5; contract, decision 12).

use serde_json::json;

use crate::support::app::{Setup, TestApp};
use crate::support::exchange::Request;

/// The `content_html` of a page with this content.
async fn html_of(content: &str) -> String {
    let app = Setup::unlimited().start();
    let page = app.publish("T", content).await;
    app.page(&page.slug).await["content_html"].as_str().unwrap().to_owned()
}

/// `html` without its tags, as far as a test needs it.
fn text_of(html: &str) -> String {
    html.split('<').enumerate().map(|(at, part)| if at == 0 { part } else { part.split_once('>').unwrap().1 }).collect()
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
async fn raw_html_is_shown_as_text() {
    for raw in
        ["<script>alert(1)</script>", "<b>x</b>", "<img src=x onerror=alert(1)>", "<!-- x -->", "<div class=x>", "</p>"]
    {
        for markdown in [raw.to_owned(), format!("inline {raw} here"), format!("- {raw}")] {
            let html = html_of(&markdown).await;
            let name = raw.trim_start_matches(['<', '/', '!']).split([' ', '>', '\n', '-']).next().unwrap();
            assert!(name == "p" || name.is_empty() || !html.contains(&format!("<{name}")), "{markdown} became {html}");
            let visible = text_of(&html).replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
            assert!(visible.contains(raw), "{markdown} became {html}");
        }
    }
}

#[tokio::test]
async fn constructs_outside_the_subset_stay_text() {
    for markdown in ["| a | b |\n|---|---|\n| 1 | 2 |", "text[^1]\n\n[^1]: note", "- [ ] to do\n- [x] done"] {
        let html = html_of(markdown).await;
        for element in ["<table", "<sup", "<input", "footnote"] {
            assert!(!html.contains(element), "{markdown} became {html}");
        }
    }
    assert!(html_of("- [x] done").await.contains("[x] done"));
    assert!(html_of("| a | b |\n|---|---|").await.contains("| a | b |"));
}

#[tokio::test]
async fn every_link_is_nofollow_and_ugc() {
    let links = "[a](https://a.example/) <https://b.example/> [c](/c) [d](#d) [e](mailto:e@example.org) [f]\n\n[f]: http://f.example/";
    let html = html_of(links).await;
    assert_eq!(html.matches("<a ").count(), 6, "{html}");
    assert_eq!(html.matches(r#"rel="nofollow ugc""#).count(), 6, "{html}");
    assert_eq!(html.matches("rel=").count(), 6, "{html}");
}

#[tokio::test]
async fn a_link_to_anything_but_the_web_mail_or_this_site_is_its_text() {
    for address in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "ftp://a.example/",
        "file:///etc/passwd",
        "relative",
        "../up",
        "?query",
        "//elsewhere.example/",
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
async fn elements_nest_at_most_32_deep() {
    for markdown in [">".repeat(1000), "- ".repeat(1000), "*a ".repeat(1000) + &"b*".repeat(1000)] {
        let html = html_of(&format!("{markdown} x")).await;
        let (mut depth, mut deepest) = (0_usize, 0);
        for tag in html.split('<').skip(1) {
            match tag.as_bytes()[0] {
                b'/' => depth -= 1,
                _ if tag.starts_with("hr") || tag.starts_with("br") || tag.starts_with("img") => {}
                _ => depth += 1,
            }
            deepest = deepest.max(depth);
        }
        assert!((1..=32).contains(&deepest), "{deepest}");
    }
}

#[tokio::test]
async fn an_update_renders_the_new_content() {
    let app = TestApp::new();
    let page = app.publish("T", "*old*").await;
    let updated = app.update(&page, json!({"content": "**new**"})).await;
    assert_eq!(updated.field("content_html"), html_of("**new**").await);
    assert_eq!(app.page(&page.slug).await["content_html"], updated.field("content_html").as_str());
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
        "[x](https://pages.example@elsewhere.example/)",
        "[x][1]\n\n[1]: https://elsewhere.example/",
        "[own](https://pages.example/) and [x](https://elsewhere.example/)",
        "[![image](https://pages.example/i.png)](https://elsewhere.example/)",
        "[x](/\\elsewhere.example) [y](https://elsewhere.example/)",
    ] {
        assert!(is_marked_noindex(content).await, "{content}");
    }
    for content in [
        "no link",
        "https://elsewhere.example/ as text",
        "`[x](https://elsewhere.example/)`",
        "![an image](https://elsewhere.example/i.png)",
        "[x](https://pages.example/other)",
        "[x](HTTPS://Pages.Example:443/other)",
        "[x](/other) [y](#there) [z](mailto:a@elsewhere.example)",
        "[x](//elsewhere.example/)",
        "[x](javascript:alert(1))",
        "[1]: https://elsewhere.example/",
        "<a href=\"https://elsewhere.example/\">x</a>",
    ] {
        assert!(!is_marked_noindex(content).await, "{content}");
    }
}

#[tokio::test]
async fn an_update_that_takes_the_external_link_out_takes_the_mark_away() {
    let app = TestApp::new();
    let page = app.publish("T", "[x](https://elsewhere.example/)").await;
    assert_eq!(app.get(&format!("/{}", page.slug)).await.header("x-robots-tag"), "noindex");
    app.update(&page, json!({"content": "[x](/here)"})).await.has(200);
    assert!(!app.get(&format!("/{}", page.slug)).await.headers.contains_key("x-robots-tag"));
    app.update(&page, json!({"content": "[x](https://elsewhere.example/)"})).await.has(200);
    assert_eq!(app.get(&format!("/{}", page.slug)).await.header("x-robots-tag"), "noindex");
}
