//! Pages for people (contract, decision 13).

use serde_json::json;

use super::discovery::linked;
use crate::in_process::app::{BASE_URL, Setup, TestApp};
use crate::in_process::exchange::{Answer, Request};

/// The value of the first attribute `name` after `marker`.
fn attribute<'a>(html: &'a str, marker: &str, name: &str) -> &'a str {
    let tag = &html[html.find(marker).unwrap_or_else(|| panic!("no {marker} in {html}"))..];
    let tag = &tag[..tag.find('>').unwrap()];
    let value = tag.split_once(&format!("{name}=\"")).unwrap().1;
    value.split('"').next().unwrap()
}

fn is_html(answer: &Answer) -> bool {
    answer.header("content-type") == "text/html; charset=utf-8"
}

#[tokio::test]
async fn a_page_holds_content_html_with_code_the_keyboard_reaches() {
    let app = TestApp::new();
    let content = "Some *text* with <script>alert(1)</script>.\n\n- a list\n\n```rust\nlet x = \"1 < 2\";\n```\n";
    let page = app.publish("Hello", content).await;
    let content_html = app.page(&page.slug).await["content_html"].as_str().unwrap().to_owned();
    let answer = app.get(&format!("/{}", page.slug)).await;
    assert!(is_html(answer.expect_status(200)), "{answer:?}");
    let reachable = content_html.replace("<pre>", "<pre tabindex=\"0\">");
    assert_ne!(reachable, content_html);
    assert!(answer.text().contains(&reachable), "{reachable} is not in {}", answer.text());
}

#[tokio::test]
async fn a_page_has_the_language_of_its_text_where_that_is_sure() {
    let app = TestApp::new();
    let german = "Der Ausschuss wird seine Ergebnisse nächste Woche veröffentlichen, und alle dürfen sie lesen.";
    let english = "The committee will publish its findings next week, and everybody may read them.";
    for (content, language) in [(german, "de"), (english, "en"), (&format!("    {english}\n"), "und")] {
        let page = app.publish("A title", content).await;
        let html = app.get(&format!("/{}", page.slug)).await;
        assert_eq!(attribute(html.text(), "<html", "lang"), language, "{content}");
    }
    // An update finds the language again.
    let page = app.publish("A title", german).await;
    app.update(&page, json!({"content": english})).await.expect_status(200);
    assert_eq!(attribute(app.get(&format!("/{}", page.slug)).await.text(), "<html", "lang"), "en");
}

#[tokio::test]
async fn a_page_runs_no_script_and_lets_nothing_run() {
    let app = TestApp::new();
    let page = app.publish("<script>alert(1)</script>", "<script>alert(1)</script>").await;
    let answer = app.get(&format!("/{}", page.slug)).await;
    assert!(!answer.text().contains("<script"), "{}", answer.text());
    assert!(!answer.text().contains(" style="), "{}", answer.text());
    // Each answer is checked for more (`check_common_rules`).
    let policy = answer.header("content-security-policy");
    assert!(!policy.contains("script-src") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("base-uri 'none'") && policy.contains("form-action 'none'"), "{policy}");
}

#[tokio::test]
async fn a_preview_of_a_page_shows_its_first_image_or_is_small() {
    let app = TestApp::new();
    let card = |html: &str| attribute(html, "name=\"twitter:card\"", "content").to_owned();
    let page =
        app.publish("T", "![a](http://a.example/b) ![c](https://a.example/d?e&f) ![g](https://a.example/h)").await;
    let html = app.get(&format!("/{}", page.slug)).await.text().to_owned();
    assert_eq!(attribute(&html, "property=\"og:image\"", "content"), "https://a.example/d?e&amp;f");
    assert_eq!(card(&html), "summary_large_image");
    assert_eq!(html.matches("og:image").count(), 1, "{html}");
    app.update(&page, json!({"content": "![a](http://a.example/b)"})).await.expect_status(200);
    let html = app.get(&format!("/{}", page.slug)).await.text().to_owned();
    assert!(!html.contains("og:image") && card(&html) == "summary", "{html}");
}

#[tokio::test]
async fn a_saved_source_has_the_name_of_its_page() {
    let (app, page) = TestApp::with_page().await;
    let expected = format!("inline; filename=\"{}.md\"", page.slug);
    let ask = |path: String| Request::get(path).header("accept", "text/markdown");
    for path in [format!("/{}.md", page.slug), format!("/{}", page.slug)] {
        let answer = app.send(ask(path.clone())).await;
        assert_eq!(answer.expect_status(200).header("content-disposition"), expected, "{path}");
        let unchanged = app.send(ask(path.clone()).header("if-none-match", answer.header("etag"))).await;
        assert_eq!(unchanged.expect_status(304).header("content-disposition"), expected, "{path}");
    }
    assert!(!app.get(&format!("/{}", page.slug)).await.headers.contains_key("content-disposition"));
}

#[tokio::test]
async fn a_title_that_would_fill_a_phone_is_shown_smaller() {
    let app = TestApp::new();
    for (title, is_smaller) in
        [("a".repeat(64), false), ("a".repeat(65), true), ("字".repeat(32), false), ("字".repeat(33), true)]
    {
        let page = app.publish(&title, "c").await;
        let html = app.get(&format!("/{}", page.slug)).await.text().to_owned();
        let class = if is_smaller { " class=\"long\"" } else { "" };
        assert!(html.contains(&format!("<h1 dir=\"auto\"{class}>{title}</h1>")), "{html}");
    }
}

#[tokio::test]
async fn a_client_that_would_rather_have_markdown_gets_it() {
    let (app, page) = TestApp::with_page().await;
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let markdown = [
        "text/markdown",
        "text/html, Text/Markdown",
        "text/markdown, text/html;q=0.9",
        "text/html;q=0.5,text/markdown ; q=0.6",
    ];
    let html = [browser, "*/*", "", "text/markdown;q=0", "text/html, text/markdown;q=0.5", "text/*", "nonsense"];
    for (accept, gets_markdown) in markdown.map(|accept| (accept, true)).into_iter().chain(html.map(|it| (it, false))) {
        let answer = app.send(Request::get(format!("/{}", page.slug)).header("accept", accept)).await;
        assert!(answer.expect_status(200).members("vary").contains(&"accept".to_owned()), "{answer:?}");
        if gets_markdown {
            assert_eq!(answer.header("content-type"), "text/markdown; charset=utf-8", "{accept}");
            assert_eq!(answer.text(), "# Hello, world\n\nA *first* page.");
            assert_eq!(answer.members("cache-control"), ["private", "no-cache"], "no shared cache may keep it");
        } else {
            assert!(is_html(&answer), "{accept}: {answer:?}");
            assert_eq!(answer.header("cache-control"), "no-cache", "{accept}");
        }
    }
    for path in ["/no/such/route", "/hello-2222bbbb", "/hello-2222bbbb.md", "/assets/none.css"] {
        let answer = app.get(path).await;
        assert!(answer.expect_status(404).members("vary").contains(&"accept".to_owned()), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn markdown_at_its_own_address_does_not_depend_on_accept() {
    let (app, page) = TestApp::with_page().await;
    let path = format!("/{}.md", page.slug);
    let own = app.get(&path).await;
    assert_eq!(own.members("vary"), ["accept-encoding"], "{own:?}");
    assert_eq!(own.header("cache-control"), "no-cache");
    assert_eq!(own.text(), "A *first* page.");
}

#[tokio::test]
async fn markdown_by_accept_begins_with_the_title_and_has_its_own_tag() {
    let app = Setup::unlimited().start();
    for (title, content, expected) in [
        ("A *b*", "Text.", "# A \\*b\\*\n\nText."),
        ("A *b*", "# Other\n", "# A \\*b\\*\n\n# Other\n"),
        ("A *b*", "    code\n", "# A \\*b\\*\n\n    code\n"),
        ("A b", "# A *b*\n\nText.", "# A *b*\n\nText."),
        ("A b", "A b\n===\nText.", "A b\n===\nText."),
        ("", "Text.", "Text."),
        ("A *b*", "---\ntags: [a]\n---\n\nText.", "# A \\*b\\*\n\nText."),
        ("A b", "---\ntitle: A b\n---\n# A *b*", "# A *b*"),
        ("", "---\ntitle: b\n---\n", "---\ntitle: b\n---\n"),
    ] {
        let page = app.publish("A page", content).await;
        app.update(&page, json!({"title": title})).await.expect_status(200);
        let path = format!("/{}", page.slug);
        let [own, negotiated] = [
            app.get(&format!("{path}.md")).await,
            app.send(Request::get(&path).header("accept", "text/markdown")).await,
        ];
        assert_eq!((own.text(), negotiated.text()), (content, expected));
        assert_ne!(own.header("etag"), negotiated.header("etag"), "{title}");
        assert_eq!(linked(&negotiated, "alternate"), [format!("{BASE_URL}{path}.md")]);
        let update = Request::update(&page.slug, "{}").key(&page.key).header("if-match", negotiated.header("etag"));
        app.send(update).await.expect_status(200);
    }
}

#[tokio::test]
async fn an_address_with_punctuation_behind_it_is_redirected() {
    let (app, page) = TestApp::with_page().await;
    for behind in ["/", ".", ")", "%29", ").", "/)", "//"] {
        for method in ["GET", "HEAD"] {
            let answer = app.send(Request::new(method, format!("/{}{behind}", page.slug))).await;
            assert_eq!(answer.expect_status(308).header("location"), format!("{BASE_URL}/{}", page.slug), "{behind}");
            assert!(answer.body.is_empty(), "{behind}");
        }
    }
    let source = app.get(&format!("/{}.md.", page.slug)).await;
    assert_eq!(source.expect_status(308).header("location"), format!("{BASE_URL}/{}.md", page.slug));
    let with_key = app.get(&format!("/{}/?key={}", page.slug, page.key)).await;
    with_key.expect_error(401, "key_in_query");
    // The redirect does not depend on the page; only the page's own address shows whether it exists.
    app.get("/never-was-2222bbbb/").await.expect_status(308);
    for path in [
        "/no-slug/",
        "/.md.",
        "/no-slug.",
        "/no-slug)",
        &format!("/{},", page.slug),
        &format!("/api/pages/{}/", page.slug),
        &format!("/api/pages/{}.md", page.slug),
        &format!("/{}.md.md", page.slug),
    ] {
        app.get(path).await.expect_status(404);
    }
    app.send(Request::new("POST", format!("/{}/", page.slug))).await.expect_error(404, "not_found");
}

#[tokio::test]
async fn a_dead_address_of_markdown_answers_by_accept() {
    let app = TestApp::new();
    let deleted = app.deleted().await;
    for (path, status, code) in
        [("/never-was-2222bbbb.md", 404, "not_found"), (&format!("/{}.md", deleted.slug), 410, "gone")]
    {
        let ask = |accept: &str| Request::get(path).header("accept", accept);
        let preferred = [
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "text/markdown, text/html;q=0.5",
            "application/json, text/html",
        ];
        for accept in preferred {
            let answer = app.send(ask(accept)).await;
            assert!(is_html(answer.expect_status(status)), "{accept}: {answer:?}");
            assert!(answer.header("link").contains("service-desc"), "every error names the API's document");
            assert!(answer.header("content-security-policy").contains("style-src"), "{answer:?}");
        }
        for accept in
            ["*/*", "", "text/markdown", "application/json", "text/html;q=0", "text/html;q=0.5, application/json"]
        {
            app.send(ask(accept)).await.expect_error(status, code);
        }
    }
}

#[tokio::test]
async fn a_missing_page_is_asked_for_again_each_time() {
    let app = TestApp::new();
    let deleted = app.deleted().await;
    for view in ["/api/pages/SLUG", "/SLUG", "/SLUG.md"] {
        for (slug, status) in [("never-was-2222bbbb", 404), (deleted.slug.as_str(), 410)] {
            let answer = app.get(&view.replace("SLUG", slug)).await;
            assert_eq!(answer.expect_status(status).header("cache-control"), "no-cache", "{view}");
        }
    }
    for path in ["/no/such/route", "/api/no-such-route"] {
        assert_eq!(app.get(path).await.expect_status(404).header("cache-control"), "no-cache", "{path}");
    }
    for request in [Request::delete("never-was-2222bbbb"), Request::update(&deleted.slug, "{}")] {
        assert_eq!(app.send(request).await.header("cache-control"), "no-cache");
    }
}

#[tokio::test]
async fn a_404_and_a_410_are_pages_that_say_which() {
    let app = TestApp::new();
    let deleted = app.deleted().await;
    let gone = format!("/{}", deleted.slug);
    for (path, status) in [("/never-was-2222bbbb", 404), ("/no-slug", 404), ("/no/such/route", 404), (&gone, 410)] {
        let answer = app.send(Request::get(path).header("accept", "text/html,*/*;q=0.8")).await;
        assert!(is_html(answer.expect_status(status)), "{answer:?}");
        assert!(answer.text().contains(&status.to_string()) && answer.text().contains("<h1"), "{answer:?}");
        assert!(answer.header("content-security-policy").contains("default-src 'none'"), "{answer:?}");
        // A shell has no use for a page of style, and its prompt stands on a line of its own.
        let answer = app.get(path).await;
        assert!(answer.expect_status(status).text().ends_with("}\n"), "{answer:?}");
        assert!(answer.members("vary").contains(&"accept".to_owned()), "{answer:?}");
    }
    let api = Request::get("/api/no-such-route").header("accept", "text/html,*/*;q=0.8");
    app.send(api).await.expect_error(404, "not_found");
}

#[tokio::test]
async fn a_page_asks_for_no_file_that_another_version_may_lack() {
    let (app, page) = TestApp::with_page().await;
    for path in ["/help", &format!("/{}", page.slug), "/never-was-2222bbbb"] {
        let answer = app.send(Request::get(path).header("accept", "text/html")).await;
        let (head, _) = answer.text().split_once("</head>").unwrap();
        assert!(head.contains("<style>") && !head.contains("stylesheet") && !head.contains("@import"), "{head}");
        assert!(!answer.text().contains("/assets/"), "{answer:?}");
        assert!(answer.header("content-security-policy").contains("; style-src 'sha256-"), "{answer:?}");
        assert_eq!(attribute(head, "rel=\"icon\"", "href"), "/favicon.ico", "an address that every version has");
    }
}

#[tokio::test]
async fn robots_txt_and_favicon_are_there() {
    let app = TestApp::new();
    let robots = app.get("/robots.txt").await;
    assert!(robots.expect_status(200).header("content-type").starts_with("text/plain"), "{robots:?}");
    assert!(robots.text().to_ascii_lowercase().contains("user-agent: *"), "{robots:?}");
    let icon = app.get("/favicon.ico").await;
    assert!(icon.expect_status(200).header("content-type").starts_with("image/"), "{icon:?}");
    assert_eq!(icon.header("cache-control"), "public, max-age=3600", "its address does not change with it");
    for path in ["/apple-touch-icon.png", "/card.png"] {
        assert_eq!(app.get(path).await.expect_status(200).header("content-type"), "image/png", "{path}");
    }
}
