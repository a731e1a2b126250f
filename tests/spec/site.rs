//! Pages for people (contract, decision 13).

use serde_json::json;

use crate::support::app::{BASE_URL, TestApp};
use crate::support::exchange::{Answer, Request};

/// The value of the first attribute `name` after `marker`.
pub(super) fn attribute<'a>(html: &'a str, marker: &str, name: &str) -> &'a str {
    let tag = &html[html.find(marker).unwrap_or_else(|| panic!("no {marker} in {html}"))..];
    let tag = &tag[..tag.find('>').unwrap()];
    let value = tag.split_once(&format!("{name}=\"")).unwrap().1;
    value.split('"').next().unwrap()
}

fn is_html(answer: &Answer) -> bool {
    answer.header("content-type") == "text/html; charset=utf-8"
}

#[tokio::test]
async fn a_page_is_html_that_holds_content_html_unchanged() {
    let app = TestApp::new();
    let content = "Some *text* with <script>alert(1)</script>.\n\n- a list\n\n```rust\nlet x = \"1 < 2\";\n```\n";
    let page = app.publish("Hello", content).await;
    let content_html = app.page(&page.slug).await["content_html"].as_str().unwrap().to_owned();
    let answer = app.get(&format!("/{}", page.slug)).await;
    assert!(is_html(answer.has(200)), "{answer:?}");
    assert!(answer.text().contains(&content_html), "{content_html} is not in {}", answer.text());
}

#[tokio::test]
async fn a_page_runs_no_script_and_lets_nothing_run() {
    let app = TestApp::new();
    let page = app.publish("<script>alert(1)</script>", "<script>alert(1)</script>").await;
    let answer = app.get(&format!("/{}", page.slug)).await;
    assert!(!answer.text().contains("<script"), "{}", answer.text());
    assert!(!answer.text().contains(" style="), "{}", answer.text());
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert!(!policy.contains("script-src") && !policy.contains("unsafe"), "{policy}");
    for directive in ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(directive), "{policy}");
    }
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
}

#[tokio::test]
async fn a_title_is_shown_as_text_and_in_its_own_direction() {
    let app = TestApp::new();
    let page = app.publish("<b>\"1\" & 2</b>", "c").await;
    let html = app.get(&format!("/{}", page.slug)).await.text().to_owned();
    assert!(!html.contains("<b>"), "{html}");
    assert!(html.contains("<h1 dir=\"auto\">"), "{html}");
    assert!(html.contains("<article dir=\"auto\">"), "{html}");
}

#[tokio::test]
async fn a_page_without_a_title_is_shown() {
    let app = TestApp::new();
    let page = app.published().await;
    app.update(&page, json!({"title": null})).await.has(200);
    let html = app.get(&format!("/{}", page.slug)).await;
    assert!(!html.has(200).text().contains("<title></title>"), "{html:?}");
}

#[tokio::test]
async fn a_page_shows_a_change_at_once() {
    let app = TestApp::new();
    let page = app.published().await;
    app.update(&page, json!({"title": "Renamed", "content": "Rewritten"})).await.has(200);
    let html = app.get(&format!("/{}", page.slug)).await;
    assert!(html.text().contains("Renamed") && html.text().contains("Rewritten"), "{html:?}");
}

#[tokio::test]
async fn a_page_names_its_address_and_its_markdown() {
    let app = TestApp::new();
    let page = app.published().await;
    let answer = app.get(&format!("/{}", page.slug)).await;
    let html = answer.text();
    let url = format!("{BASE_URL}/{}", page.slug);
    assert_eq!(attribute(html, "rel=\"canonical\"", "href"), url);
    assert_eq!(attribute(html, "type=\"text/markdown\"", "href"), format!("{url}.md"));
    assert!(html.contains(r#"<meta property="og:title" content="Hello, world">"#), "{html}");
}

#[tokio::test]
async fn the_source_is_given_byte_for_byte_under_md() {
    let app = TestApp::new();
    let content = "\u{feff}# A title\r\n\r\n*text*  \n<b>\0\u{1f600}\n\n";
    let page = app.publish("T", content).await;
    let answer = app.get(&format!("/{}.md", page.slug)).await;
    assert_eq!(answer.has(200).header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(answer.body, content.as_bytes());
}

#[tokio::test]
async fn a_client_that_would_rather_have_markdown_gets_it() {
    let app = TestApp::new();
    let page = app.published().await;
    for accept in
        ["text/markdown", "Text/Markdown", "text/markdown, text/html;q=0.9", "text/html;q=0.5,text/markdown ; q=0.6"]
    {
        let answer = app.send(Request::get(format!("/{}", page.slug)).header("accept", accept)).await;
        assert_eq!(answer.has(200).header("content-type"), "text/markdown; charset=utf-8", "{accept}");
        assert_eq!(answer.text(), "A *first* page.");
    }
}

#[tokio::test]
async fn a_client_that_would_not_rather_have_markdown_gets_html() {
    let app = TestApp::new();
    let page = app.published().await;
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for accept in [browser, "*/*", "", "text/markdown;q=0", "text/html, text/markdown;q=0.5", "text/*", "nonsense"] {
        let answer = app.send(Request::get(format!("/{}", page.slug)).header("accept", accept)).await;
        assert!(is_html(answer.has(200)), "{accept}: {answer:?}");
    }
}

#[tokio::test]
async fn what_depends_on_accept_says_so() {
    let app = TestApp::new();
    let page = app.published().await;
    for accept in ["text/html", "text/markdown"] {
        let answer = app.send(Request::get(format!("/{}", page.slug)).header("accept", accept)).await;
        assert!(answer.members("vary").contains(&"accept".to_owned()), "{answer:?}");
    }
}

#[tokio::test]
async fn a_404_and_a_410_are_pages_that_say_which() {
    let app = TestApp::new();
    let deleted = app.deleted().await;
    for (path, status) in [("/never-was-2222bbbb", 404), ("/no-slug", 404), (&format!("/{}", deleted.slug), 410)] {
        let answer = app.get(path).await;
        assert!(is_html(answer.has(status)), "{answer:?}");
        assert!(answer.text().contains(&status.to_string()) && answer.text().contains("<h1"), "{answer:?}");
        assert!(answer.header("content-security-policy").contains("default-src 'none'"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_browser_that_asks_for_nothing_of_ours_gets_a_page_and_the_api_stays_json() {
    let app = TestApp::new();
    let browse = |path: &str| Request::get(path).header("accept", "text/html,*/*;q=0.8");
    assert!(is_html(app.send(browse("/no/such/route")).await.has(404)));
    app.send(browse("/api/no-such-route")).await.fails(404, "not_found");
}

#[tokio::test]
async fn the_home_page_says_what_this_is_and_shows_the_curl() {
    let app = TestApp::new();
    let answer = app.get("/").await;
    assert!(is_html(answer.has(200)), "{answer:?}");
    assert!(answer.text().contains(&format!("curl {BASE_URL}/api/pages")), "{answer:?}");
    assert!(!answer.text().contains("<script"), "{answer:?}");
}

#[tokio::test]
async fn the_style_sheet_and_icon_that_a_page_names_are_cached_for_ever() {
    let app = TestApp::new();
    let page = app.published().await;
    let html = app.get(&format!("/{}", page.slug)).await.text().to_owned();
    for (marker, content_type) in [("rel=\"stylesheet\"", "text/css; charset=utf-8"), ("rel=\"icon\"", "image/svg+xml")]
    {
        let path = attribute(&html, marker, "href").to_owned();
        let answer = app.get(&path).await;
        assert_eq!(answer.has(200).header("content-type"), content_type);
        assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
        // Another hash is another file, and there is none.
        app.get(&path.replacen('-', "-0", 1)).await.has(404);
    }
}

#[tokio::test]
async fn robots_txt_and_favicon_are_there() {
    let app = TestApp::new();
    let robots = app.get("/robots.txt").await;
    assert!(robots.has(200).header("content-type").starts_with("text/plain"), "{robots:?}");
    assert!(robots.text().to_ascii_lowercase().contains("user-agent: *"), "{robots:?}");
    let icon = app.get("/favicon.ico").await;
    assert!(icon.has(200).header("content-type").starts_with("image/"), "{icon:?}");
    assert_eq!(icon.header("cache-control"), "public, max-age=3600", "its address does not change with it");
}

#[tokio::test]
async fn a_slug_that_ends_in_md_twice_is_no_page() {
    let app = TestApp::new();
    let page = app.published().await;
    app.get(&format!("/{}.md.md", page.slug)).await.fails(404, "not_found");
    app.read(&format!("{}.md", page.slug)).await.fails(404, "not_found");
}
