//! The second barrier lets only the subset through, and changes nothing that the first one writes.

use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::{collection, sample};

use super::canonical::is_canonical;
use super::{filter, pieces, sanitize};

#[test]
fn the_sanitiser_alone_leaves_nothing_that_is_not_on_its_list() {
    let cleaned = |html: &str| {
        assert!(!is_canonical(html), "{html}");
        sanitize::clean(html.to_owned())
    };
    assert_eq!(cleaned("<script>a</script><p id=b style=c onclick=d class=e>f</p>"), "<p>f</p>");
    assert_eq!(cleaned("<code class=\"x\">a</code><h1>b</h1>"), "<code>a</code>b");
    assert_eq!(cleaned("<a href=\"javascript:a\" target=b>c</a>"), "<a rel=\"nofollow ugc\">c</a>");
    for host in ["//e.example", "/\\e.example", "/\t/e.example", "x"] {
        assert_eq!(cleaned(&format!("<a href=\"{host}\" rel=x>a</a>")), "<a rel=\"nofollow ugc\">a</a>");
    }
    let image = cleaned("<img src=\"http://e.example\" onerror=a loading=eager>");
    assert!(!image.contains("src") && !image.contains("onerror") && image.contains("loading=\"lazy\""), "{image}");
    assert_eq!(cleaned("<svg><style><a onclick=x>a</a></style></svg><math>b</math>"), "b");
    assert_eq!(cleaned("<ol start=\"x\"><li>a</li></ol>"), "<ol><li>a</li></ol>");
}

/// Whether the second barrier leaves the first one's HTML unchanged.
#[track_caller]
fn assert_sanitiser_changes_nothing(markdown: &str) {
    let filtered = filter(markdown).html;
    assert_eq!(sanitize::sanitized(&filtered), filtered, "from {markdown:?}");
    assert!(is_canonical(&filtered), "{filtered:?} from {markdown:?}");
}

#[test]
fn the_sanitiser_changes_nothing_in_any_kind_of_address() {
    for address in [
        "https://a&b.example/&?&#&",
        "https://u&v:w&x@e.example/",
        "mailto:a&b\"<c>@e",
        "/a&b?c&d#e&f",
        "/&",
        "/&&",
        "#&",
        "#",
        "/",
        "/?&",
        "http://[::1]:8080/&",
        "https://e.example/'\"`\\",
        "https://é.example/é?é#é",
        "mailto:",
        "/%2F/x",
        "https://xn--a.example/",
        "https://𖵀Ś&𝆹𝅥ⷈᝠ!!🌀!¥𐐀𛱰£A!&&A&!!🬀A",
        "https:&",
        "http://1/&",
        "/\u{a0}",
        "#\u{a0}",
        "/:x",
        "/a:b//c",
        "mailto:\u{a0}",
        "/;/x",
    ] {
        assert_sanitiser_changes_nothing(&format!("[a](<{address}>) ![&\"<>\u{a0}](<{address}>) <{address}>"));
        assert_sanitiser_changes_nothing(&format!("[a]({address}) ![a]({address})"));
    }
}

/// Tags and texts, most of them as the first barrier writes them.
const TAGS: [&str; 60] = [
    "<p>",
    "</p>",
    "<h2>",
    "</h2>",
    "<h3>",
    "</h3>",
    "<h4>",
    "</h4>",
    "<blockquote>",
    "</blockquote>",
    "<ul>",
    "</ul>",
    "<ol>",
    "<ol start=\"7\">",
    "<ol start=\"\">",
    "</ol>",
    "<li>",
    "</li>",
    "<pre>",
    "<pre><code>",
    "<pre>\n",
    "</code></pre>",
    "</pre>",
    "<code>",
    "<code class=\"language-c++\">",
    "<code class=\"x\">",
    "</code>",
    "<em>",
    "</em>",
    "<strong>",
    "</strong>",
    "<del>",
    "</del>",
    "<a href=\"https://a.example/?b&amp;c\" rel=\"nofollow ugc\">",
    "<a href=\"mailto:&quot;\" rel=\"nofollow ugc\">",
    "<a href=\"/x\" rel=\"nofollow ugc\">",
    "<a href=\"javascript:x\" rel=\"nofollow ugc\">",
    "<a href=\"/x\" rel=\"nofollow\">",
    "<a href=\"/x\">",
    "</a>",
    "<img src=\"https://a.example/b\" alt=\"c&lt;\" loading=\"lazy\" referrerpolicy=\"no-referrer\">",
    "<img src=\"http://a.example/b\" alt=\"c\" loading=\"lazy\" referrerpolicy=\"no-referrer\">",
    "<img src=\"https://a.example/b\" alt=\"c\" onerror=\"x\" loading=\"lazy\" referrerpolicy=\"no-referrer\">",
    "<hr>",
    "<br>",
    "<script>",
    "<!-- -->",
    "<svg>",
    "<table>",
    "\n",
    "text",
    "a &amp; b",
    "&lt;",
    "&nbsp;",
    "&quot;",
    "&copy;",
    "\"",
    "\u{a0}",
    "\0",
    "<",
];

/// The start tags of elements that have an end tag, each with it.
const ELEMENTS: [(&str, &str); 14] = [
    ("<p>", "</p>"),
    ("<h2>", "</h2>"),
    ("<h4>", "</h4>"),
    ("<blockquote>", "</blockquote>"),
    ("<ul>", "</ul>"),
    ("<ol start=\"0\">", "</ol>"),
    ("<li>", "</li>"),
    ("<pre><code>", "</code></pre>"),
    ("<pre>", "</pre>"),
    ("<code class=\"language-a\">", "</code>"),
    ("<em>", "</em>"),
    ("<strong>", "</strong>"),
    ("<del>", "</del>"),
    ("<a href=\"#a\" rel=\"nofollow ugc\">", "</a>"),
];

/// HTML in which every element is closed in order. Each step opens an element, closes one, or writes a piece.
fn nested(steps: Vec<(u8, sample::Index)>) -> String {
    let mut html = String::new();
    let mut open = Vec::new();
    for (kind, index) in steps {
        match kind % 4 {
            0 | 1 => {
                let (start, end) = ELEMENTS[index.index(ELEMENTS.len())];
                html.push_str(start);
                open.push(end);
            }
            2 => html.push_str(open.pop().unwrap_or("\n")),
            _ => html.push_str(["a", "\n", "<hr>", "<br>", "&amp;", "<li></li>"][index.index(6)]),
        }
    }
    html + &open.into_iter().rev().collect::<String>()
}

/// Whether the sanitiser leaves `html` as it is, if it is canonical.
#[track_caller]
fn assert_canonical_html_is_clean(html: &str) {
    if is_canonical(html) {
        assert_eq!(sanitize::sanitized(html), html);
    }
}

#[test]
fn html_of_the_subset_is_canonical() {
    for html in [
        "",
        "a",
        "<p>a</p>\n",
        "<p>a &amp; &lt;b&gt; \"c\"&nbsp;é\u{b0}</p>",
        "<ul>\n<li>a\n<ol start=\"3\">\n<li>\n<p>b</p>\n</li>\n</ol>\n</li>\n</ul>",
        "<blockquote>\n<pre><code class=\"language-c++\">a\n</code></pre>\n<hr>\n</blockquote>",
        "<h2>a <em><strong><em>b</em></strong></em><br>\n<del>c</del></h2>",
        "<p><a href=\"https://a.example/?b&amp;c=&quot;\" rel=\"nofollow ugc\">d</a></p>",
        "<a href=\"http://127.0.0.1:8080\" rel=\"nofollow ugc\"><code>a</code></a>",
        "<a href=\"https://xn--9ca.example/\" rel=\"nofollow ugc\"></a>",
        "<a href=\"https://[::1]/\" rel=\"nofollow ugc\"></a>",
        "<a href=\"https://a&amp;&quot;b.example/\" rel=\"nofollow ugc\"></a>",
        "<a href=\"mailto:\" rel=\"nofollow ugc\"></a><a href=\"/\" rel=\"nofollow ugc\"></a>",
        "<img src=\"https://a.example\" alt=\"\n&lt;&gt;&quot;\" loading=\"lazy\" referrerpolicy=\"no-referrer\">",
    ] {
        assert!(is_canonical(html), "{html}");
        assert_eq!(sanitize::sanitized(html), html);
    }
}

#[test]
fn html_that_leaves_a_browser_a_choice_or_is_not_on_the_list_is_not_canonical() {
    for html in [
        "<p>",
        "</p>",
        "<p>a</h2>",
        "<em><strong></em></strong>",
        "<p><p></p></p>",
        "<p><em><hr></em></p>",
        "<p><ul></ul></p>",
        "<h2><h3></h3></h2>",
        "<em><p></p></em>",
        "<li></li>",
        "<ul><li><li></li></li></ul>",
        "<a href=\"#\" rel=\"nofollow ugc\"><em><a href=\"#\" rel=\"nofollow ugc\"></a></em></a>",
        "<pre>\n</pre>",
        "<pre>a</pre>",
        "<P></P>",
        "<p ></p>",
        "<p></p >",
        "<p id=\"a\"></p>",
        "<em onclick=\"a\"></em>",
        "<h1>a</h1>",
        "<script>a</script>",
        "<!-- -->",
        "a & b",
        "a > b",
        "&copy;",
        "&quot;",
        "&#60;",
        "\u{a0}",
        "\0",
        "\r",
        "<ol start=\"\"></ol>",
        "<ol start=\"-1\"></ol>",
        "<code class=\"a\"></code>",
        "<code class=\"language-\"></code>",
        "<code class=\"language-a b\"></code>",
        "<br/>",
        "<hr",
        "<a",
        "<a href=\"#",
        "<a href=\"#\">a</a>",
        "<a href=\"#\" rel=\"nofollow\">a</a>",
        "<a href='#' rel=\"nofollow ugc\">a</a>",
        "<img src=\"http://a.example/\" alt=\"\" loading=\"lazy\" referrerpolicy=\"no-referrer\">",
        "<img src=\"https://a.example/\" alt=\"\" loading=\"eager\" referrerpolicy=\"no-referrer\">",
        "<img src=\"https://a.example/\" alt=\"<\" loading=\"lazy\" referrerpolicy=\"no-referrer\">",
    ] {
        assert!(!is_canonical(html), "{html}");
    }
    for address in [
        "",
        "x",
        "javascript:a",
        "JAVASCRIPT:a",
        "java\nscript:a",
        " https://a.example/",
        "HTTPS://a.example/",
        "https:a.example",
        "https://",
        "https:///a.example",
        "https://?",
        "https://a b/",
        "https://1.2.3.256/",
        "https://xn--a.example/",
        "https://𖵀Ś&𝆹𝅥ⷈᝠ!!🌀!¥𐐀𛱰£A!&&A&!!🬀A",
        "https://a.example:99999/",
        "https://a&lt;b.example/",
        "//a.example",
        "/\\a.example",
        "/\t/a.example",
        "data:text/html,a",
        "ftp://a.example/",
        "x://a",
        "mailto",
    ] {
        let html = format!("<a href=\"{address}\" rel=\"nofollow ugc\">a</a>");
        assert!(!is_canonical(&html), "{html}");
    }
}

proptest! {
    // A failing case must become a named test, not a file of seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_sanitiser_changes_nothing_that_the_filter_wrote(
        pieces in collection::vec(sample::select(pieces::all()), 0..80)
    ) {
        assert_sanitiser_changes_nothing(&pieces.concat());
    }

    #[test]
    fn the_sanitiser_changes_nothing_in_any_text(text in any::<String>()) {
        assert_sanitiser_changes_nothing(&text);
        assert_sanitiser_changes_nothing(&format!("[a](<https://{text}>) ![{text}](<https:{text}>) [b](<{text}>)"));
    }

    #[test]
    fn the_sanitiser_changes_no_canonical_html(pieces in collection::vec(sample::select(&TAGS[..]), 0..12)) {
        assert_canonical_html_is_clean(&pieces.concat());
    }

    #[test]
    fn the_sanitiser_changes_no_canonical_html_however_nested(
        steps in collection::vec(any::<(u8, sample::Index)>(), 0..60),
        (at, other) in any::<(sample::Index, sample::Index)>(),
    ) {
        let html = nested(steps);
        assert_canonical_html_is_clean(&html);
        // And with a piece more somewhere.
        let at = html.floor_char_boundary(at.index(html.len() + 1));
        let piece = TAGS[other.index(TAGS.len())];
        assert_canonical_html_is_clean(&format!("{}{piece}{}", &html[..at], &html[at..]));
    }

    #[test]
    fn the_sanitiser_changes_no_canonical_address(
        address in "(https?://|mailto:|/|#|)([a-z0-9.:@%\\[\\]\\\\&;!?/ -]|xn--|&amp;|&quot;|é){0,20}",
    ) {
        assert_canonical_html_is_clean(&format!("<a href=\"{address}\" rel=\"nofollow ugc\">a</a>"));
        let rest = "loading=\"lazy\" referrerpolicy=\"no-referrer\">";
        assert_canonical_html_is_clean(&format!("<img src=\"{address}\" alt=\"{address}\" {rest}"));
    }
}
