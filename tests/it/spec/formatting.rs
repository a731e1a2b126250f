//! The HTML that a page's Markdown becomes (spec §2.5; contract, decision 12). The crate `handbill-markdown` decides most
//! rules and tests them: headings, tables, images, classes. `tests/it/security` tests which addresses a link may have.

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::Request;

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

fn linked(href: &str, text: &str) -> String {
    format!(r#"<a href="{href}" rel="nofollow ugc">{text}</a>"#)
}

#[tokio::test]
async fn a_bare_web_address_is_a_link_as_github_finds_it() {
    let business = "https://encrypted.google.com/search?q=Markup+(business)";
    let search = "http://google.com/search?q=commonmark";
    // The GFM specification's examples (§6.9), with `http://` where they have `www.`, which is text here. Each row is the text
    // before a link, its address, the text that it shows, and the text behind it.
    for (before, href, shown, after) in [
        ("", "http://commonmark.org/", "http://commonmark.org", ""),
        ("Visit ", "http://commonmark.org/help", "http://commonmark.org/help", " for more information."),
        ("Visit ", "http://commonmark.org/a.b", "http://commonmark.org/a.b", "."),
        ("(Visit ", business, business, ")"),
        ("", business, business, "))"),
        ("(", business, business, ""),
        ("", "http://google.com/search?q=(business))+ok", "http://google.com/search?q=(business))+ok", ""),
        ("", "http://google.com/search?q=a&amp;hl=en", "http://google.com/search?q=a&amp;hl=en", ""),
        ("", search, search, "&amp;hl;"),
        ("", search, search, "©"),
        ("", "http://commonmark.org/he", "http://commonmark.org/he", "&lt;lp"),
        ("<strong>Autolink and ", "http://inlines/", "http://inlines", "</strong>"),
        ("\"", "http://google.com/", "http://google.com", "\""),
        ("'", "http://google.com/", "http://google.com", "'"),
        ("", "https://a.example/B", "HTTPS://A.Example/B", ""),
        ("", "http://a.example:8080/b", "http://a.example:8080/b", ", c"),
    ] {
        let source = format!("{before}{shown}{after}").replace("<strong>", "**").replace("</strong>", "**");
        let source = source.replace("&amp;", "&").replace("&lt;", "<").replace('©', "&copy;");
        let expected = format!("<p>{before}{}{after}</p>\n", linked(href, shown));
        assert_eq!(html_of(&source).await, expected, "from {source}");
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
        let strong = format!("<p><strong>{expected}</strong>, <em>c</em></p>\n");
        assert_eq!(html_of(&format!("**{address}**, *c*")).await, strong);
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
