//! `POST /`: the form of the home page, and Markdown from a shell (contract, decision 19).

use handbill_pages::values::title::MAX_CHARS;
use serde_json::Value;

use crate::in_process::app::{BASE_URL, Setup, TestApp};
use crate::in_process::exchange::{Answer, Request, holds_a_key};
use crate::in_process::stores::Calls;

pub(crate) const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const BOUNDARY: &str = "----parts";

/// A part of a form: its name, its file's name if it is a file, and its content.
pub(crate) type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

pub(crate) fn field<'a>(name: &'a str, text: &'a str) -> Part<'a> {
    (name, None, text.as_bytes())
}

fn encoded(parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"\r\nContent-Type: text/markdown")).unwrap_or_default();
        body.extend(
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").as_bytes(),
        );
        body.extend(*content);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

pub(crate) fn form(parts: &[Part<'_>]) -> Request {
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    Request::new("POST", "/").header("content-type", content_type).body(encoded(parts))
}

fn markdown(text: impl Into<axum::body::Body>) -> Request {
    Request::new("POST", "/").header("content-type", "text/markdown").body(text)
}

/// The address and the key in the three lines of an answer in text: the third is the edit link, of both.
fn in_text(answer: &Answer) -> (String, String) {
    answer.expect_status(201);
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    let lines: Vec<&str> = answer.text().lines().collect();
    let [url, key, link] = lines.as_slice() else { panic!("three lines: {answer:?}") };
    let key = key.strip_prefix("Edit key (shown this once): ").unwrap_or_else(|| panic!("{answer:?}"));
    assert!(holds_a_key(key.as_bytes()) && key.len() == 47, "{answer:?}");
    assert_eq!(*link, format!("Edit link (secret): {url}/edit#{key}"));
    ((*url).to_owned(), key.to_owned())
}

async fn published(app: &TestApp, answer: &Answer) -> Value {
    let (url, _) = in_text(answer);
    app.page(url.strip_prefix(&format!("{BASE_URL}/")).unwrap()).await
}

#[tokio::test]
async fn a_form_publishes_a_page_whose_key_opens_it() {
    let app = TestApp::new();
    let answer = app.send(form(&[field("title", "From a form"), field("content", "Some *text*.")])).await;
    let (url, key) = in_text(&answer);
    let slug = url.strip_prefix(&format!("{BASE_URL}/from-a-form-")).unwrap();
    assert_eq!(answer.header("location"), url);
    let page = app.page(&format!("from-a-form-{slug}")).await;
    assert_eq!((&page["title"], &page["content"]), (&"From a form".into(), &"Some *text*.".into()));
    let update = Request::update(&format!("from-a-form-{slug}"), r#"{"content": "new"}"#).key(&key);
    app.send(update.header("if-match", answer.header("etag"))).await.expect_status(200);
}

#[tokio::test]
async fn a_raw_body_is_published_byte_for_byte() {
    let app = Setup::unlimited().start();
    let content = "\u{feff}# A title\r\n\r\n*text*  \r<b>\u{1f600}\n\n";
    for content_type in ["text/markdown", "text/plain; charset=utf-8", "Text/Markdown;charset=UTF-8"] {
        let post = Request::new("POST", "/").header("content-type", content_type).body(content);
        let page = published(&app, &app.send(post).await).await;
        assert_eq!((&page["title"], &page["content"]), (&"A title".into(), &content.into()), "{content_type}");
    }
}

#[tokio::test]
async fn in_a_form_cr_lf_becomes_lf_before_the_content_is_counted() {
    let app = Setup::unlimited().start();
    for file in [None, Some("note.md")] {
        let parts = [field("title", "T"), ("content", file, b"a\r\nb\n\r\r\nc".as_slice())];
        assert_eq!(published(&app, &app.send(form(&parts)).await).await["content"], "a\nb\n\r\nc");
        let largest = format!("{}{}", "a".repeat(102_390), "\r\n".repeat(10));
        let parts = [field("title", "T"), ("content", file, largest.as_bytes())];
        assert_eq!(published(&app, &app.send(form(&parts)).await).await["content"].as_str().unwrap().len(), 102_400);
    }
    let raw = markdown(format!("{}{}", "a".repeat(102_390), "\r\n".repeat(10))).query("title=T");
    app.send(raw).await.expect_error(413, "content_too_large");
}

#[tokio::test]
async fn the_title_is_the_field_the_query_a_heading_or_the_file() {
    let app = Setup::unlimited().start();
    let text = "text\n\n## Second level\n\n# First *level*\n";
    for (request, title) in [
        (form(&[field("title", "One line\r\n"), field("content", text)]), "One line"),
        (form(&[field("title", " Field "), field("content", text)]).query("title=Query"), "Field"),
        (form(&[field("title", ""), field("content", text)]).query("title=Que%20ry"), "Que ry"),
        (form(&[field("title", " \u{200b}"), field("content", text)]), "First level"),
        (form(&[("content", Some("note.md"), text.as_bytes())]), "First level"),
        (form(&[("content", Some("folder/My note.md"), b"text")]), "My note"),
        (form(&[field("content", "text\n\n### Only")]), "Only"),
        (markdown(text).query("title=Query+title"), "Query title"),
        (markdown(text), "First level"),
        (markdown("Under\n====="), "Under"),
        (markdown("---\ntitle: 'In front'\n---\n\n# Heading").query("title=Query"), "Query"),
        (markdown("---\r\ntitle: 'In front'\r\n---\r\n\r\n# Heading"), "In front"),
        (form(&[("file", Some("note.md"), b"---\ntitle: In front\n---\ntext")]), "In front"),
        (form(&[("file", Some("My note.md"), b"---\ntags: a\n---\ntext")]), "My note"),
    ] {
        let answer = app.send(request).await;
        let page = published(&app, &answer).await;
        assert_eq!(page["title"], title);
    }
    let page = published(&app, &app.send(markdown(text)).await).await;
    assert_eq!(page["content"], text, "the content keeps its heading");
}

#[tokio::test]
async fn a_text_without_any_title_answers_400_that_says_where() {
    let app = TestApp::new();
    for request in [
        markdown("text"),
        markdown("text").query("title="),
        form(&[field("content", "text")]),
        form(&[("content", Some(""), b"text")]),
        form(&[("content", Some("-"), b"text")]),
    ] {
        let message = app.send(request).await.expect_error(400, "invalid_body").field("message");
        assert!(message.contains("`title`") && message.contains("`?title=…`") && message.contains("# "), "{message}");
    }
}

#[tokio::test]
async fn a_title_from_a_heading_obeys_the_rules_of_titles() {
    let app = TestApp::new();
    for heading in ["\u{202e}turned", "a\u{2066}b", &"t".repeat(MAX_CHARS + 1)] {
        let message =
            app.send(markdown(format!("# {heading}\n"))).await.expect_error(400, "invalid_body").field("message");
        assert!(message.contains("`title`") && message.contains("No title was sent"), "{message}");
    }
    app.send(markdown("")).await.expect_error(400, "empty_content");
    let page = published(&app, &app.send(markdown(format!("# {}\n", "é".repeat(MAX_CHARS)))).await).await;
    assert_eq!(page["title"], "é".repeat(MAX_CHARS));
}

#[tokio::test]
async fn the_answer_has_the_form_that_accept_names() {
    let app = Setup::unlimited().start();
    let ask = |accept: &str| markdown("# T").header("accept", accept);
    for accept in ["application/json", "application/json, text/html;q=0.9, */*;q=0.1"] {
        let answer = app.send(ask(accept)).await;
        let fields: Vec<String> = answer.expect_status(201).json().as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields, ["created_at", "edit_key", "slug", "url"]);
        assert_eq!(answer.header("content-type"), "application/json");
    }
    for accept in ["*/*", "", "text/plain", "text/markdown", "text/html;q=0"] {
        in_text(&app.send(ask(accept)).await);
    }
    let answer = app.send(ask(BROWSER)).await;
    assert_eq!(answer.expect_status(201).header("content-type"), "text/html; charset=utf-8");
    assert!(answer.text().contains(answer.header("location")) && holds_a_key(answer.text().as_bytes()), "{answer:?}");
    for accept in [BROWSER, "*/*", "application/json"] {
        let answer = app.send(ask(accept)).await;
        assert_eq!(answer.header("cache-control"), "no-store", "{accept}");
        assert!(answer.members("vary").contains(&"accept".to_owned()), "{accept}");
        assert!(answer.header("etag").starts_with('"'), "{accept}");
    }
}

#[tokio::test]
async fn an_error_is_json_and_for_browsers_the_form_with_the_text() {
    let app = TestApp::new();
    let parts = [field("title", "a\u{7}b & c"), field("content", "\nMy <b>text</b> & more")];
    app.send(form(&parts)).await.expect_error(400, "invalid_body");
    app.send(form(&parts).header("accept", "application/json")).await.expect_error(400, "invalid_body");
    let answer = app.send(form(&parts).header("accept", BROWSER)).await;
    assert_eq!(answer.expect_status(400).header("content-type"), "text/html; charset=utf-8");
    assert_eq!(answer.header("cache-control"), "no-store");
    let html = answer.text();
    assert!(html.contains("\n\nMy &#60;b&#62;text&#60;/b&#62; &#38; more</textarea>"), "{html}");
    assert!(html.contains("\na\u{7}b &#38; c</textarea>"), "{html}");
    let told = "role=\"status\"><span>The title is too long, or has a character in it that can’t be shown";
    assert!(html.contains(told), "{html}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_not_given_back() {
    let app = TestApp::new();
    let large = "x".repeat(131_073);
    let parts = [field("title", "T"), field("content", &large)];
    app.send(form(&parts)).await.expect_error(413, "body_too_large");
    app.send(markdown(large.clone())).await.expect_error(413, "body_too_large");
    let answer = app.send(form(&parts).header("accept", BROWSER)).await;
    assert!(answer.expect_status(413).text().contains("The text was not read"), "{answer:?}");
    let parts = [field("title", "T"), field("content", &large[..102_401])];
    let answer = app.send(form(&parts).header("accept", BROWSER)).await;
    assert!(answer.expect_status(413).text().contains(&large[..102_401]), "the text is there");
    app.send(form(&parts)).await.expect_error(413, "content_too_large");
}

#[tokio::test]
async fn a_text_that_is_too_large_is_refused_before_its_title() {
    let app = TestApp::new();
    let large = "x".repeat(102_401);
    // The heading of such a text is not looked for. This one could be no title.
    for text in [large.clone(), format!("# \u{202e}\n{large}")] {
        app.send(markdown(text.clone())).await.expect_error(413, "content_too_large");
        app.send(form(&[field("content", &text)])).await.expect_error(413, "content_too_large");
        app.send(markdown(text).query("action=preview")).await.expect_error(413, "content_too_large");
    }
}

#[tokio::test]
async fn a_url_encoded_form_is_refused_with_lines_that_work() {
    let app = TestApp::new();
    let lossy =
        || Request::new("POST", "/").header("content-type", "application/x-www-form-urlencoded").body("content=a");
    let message = app.send(lossy()).await.expect_error(400, "invalid_body").field("message");
    for line in [
        "`curl --data-binary @note.md -H 'Content-Type: text/markdown' https://pages.example/`",
        "`curl -F content=@note.md https://pages.example/`",
    ] {
        assert!(message.contains(line), "{message}");
    }
    let json = Request::new("POST", "/").json(r#"{"title": "T", "content": "c"}"#);
    let message = app.send(json).await.expect_error(400, "invalid_body").field("message");
    assert!(message.contains("`POST https://pages.example/api/pages`"), "{message}");
    for content_type in ["image/png", "text/html", "nonsense", ""] {
        let other = Request::new("POST", "/").header("content-type", content_type).body("x");
        app.send(other).await.expect_error(400, "invalid_body");
    }
    app.send(Request::new("POST", "/").body("# T")).await.expect_error(400, "invalid_body");
    app.send(markdown("# T").header("content-encoding", "gzip")).await.expect_error(400, "invalid_body");
}

#[tokio::test]
async fn a_form_with_a_wrong_field_answers_400_that_names_it() {
    let app = TestApp::new();
    let (title, content) = (field("title", "T"), field("content", "c"));
    for (request, named) in [
        (form(&[title, content, field("text", "x")]), "`title`, `content` (or `file`) and `action`"),
        (form(&[title, content, content]), "`content` is there twice"),
        (form(&[title, content, field("file", "c")]), "`content` is there twice"),
        (form(&[title, title, content]), "`title` is there twice"),
        (form(&[title]), "`content` is missing"),
        (form(&[field("title", "a\r\nb"), content]), "`title` is not valid"),
        (form(&[field("title", "a\u{2028}b"), content]), "`title` is not valid"),
        (form(&[title, content, field("action", "delete")]), "`publish` or `preview`"),
        (form(&[title, ("content", None, b"\xff")]), "`content` is not UTF-8, at byte 0"),
        (markdown(b"ab\xff".to_vec()).query("title=T"), "not UTF-8, at byte 2"),
        (markdown("# T").query("titel=x"), "`title` and `action`"),
        (markdown("# T").query("action=drop"), "`publish` or `preview`"),
        (markdown("# T").query("title=a&title=b"), "`title` is there twice"),
        (markdown("# T").query("action=preview&action=publish"), "`action` is there twice"),
        (markdown("# T").query("title=%ff"), "not UTF-8"),
        (form(&[]).body("no parts"), "multipart/form-data"),
        (Request::new("POST", "/").header("content-type", "multipart/form-data").body("x"), "multipart/form-data"),
    ] {
        let message = app.send(request).await.expect_error(400, "invalid_body").field("message");
        assert!(message.contains(named), "{named}: {message}");
    }
    app.send(form(&[title, field("content", "")])).await.expect_error(400, "empty_content");
}

#[tokio::test]
async fn a_form_that_a_browser_sends_for_another_site_answers_403() {
    let app = Setup::new().limits(1, 1).start();
    let post = || form(&[field("title", "T"), field("content", "c")]);
    for request in [
        post().header("sec-fetch-site", "cross-site"),
        post().header("sec-fetch-site", "same-site"),
        post().header("sec-fetch-site", "cross-site").header("origin", BASE_URL),
        post().header("origin", "https://elsewhere.example"),
        post().header("origin", "https://pages.example.elsewhere.example"),
        post().header("origin", "https://pages.example:8443"),
        post().header("origin", "null"),
        markdown("# T").header("origin", "https://elsewhere.example"),
        post().header("sec-fetch-site", "none").header("sec-fetch-site", "cross-site"),
        post().header("origin", BASE_URL).header("origin", "https://elsewhere.example"),
    ] {
        let answer = app.send(request.header("accept", BROWSER)).await;
        answer.expect_error(403, "cross_origin");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(!answer.headers.contains_key("ratelimit"), "it was not counted: {answer:?}");
    }
    let app = Setup::unlimited().start();
    for request in [
        post(),
        // A form without a referrer names no origin, and the browser still says that it is of the same site.
        post().header("sec-fetch-site", "same-origin").header("origin", "null"),
        post().header("sec-fetch-site", "none"),
        post().header("origin", BASE_URL),
        post().header("origin", "http://pages.example"),
    ] {
        in_text(&app.send(request).await);
    }
}

#[tokio::test]
async fn a_form_shares_the_limit_of_creates() {
    let app = Setup::new().limits(2, 1).start();
    let post = || form(&[field("title", "T"), field("content", "c")]);
    for refused in [markdown(""), markdown("# T").query("x=y"), form(&[field("title", "T"), field("content", "")])] {
        let answer = app.send(refused).await;
        assert!(!answer.expect_status(400).headers.contains_key("ratelimit"), "{answer:?}");
    }
    let answer = app.send(post()).await;
    assert_eq!(answer.expect_status(201).header("ratelimit-policy"), "\"create\";q=2;w=3600");
    app.create(r#"{"title": "T", "content": "c"}"#).await.expect_status(201);
    app.send(post()).await.expect_error(429, "rate_limited");
    app.send(markdown("# T")).await.expect_error(429, "rate_limited");
    let answer = app.send(post().header("accept", BROWSER)).await;
    assert!(answer.expect_status(429).text().contains(">c</textarea>") || answer.text().contains("\nc</textarea>"));
    assert!(answer.text().contains("Too many new pages from your network"), "{answer:?}");
    assert!(answer.retry_after() > 3500, "{answer:?}");
}

#[tokio::test]
async fn an_attempt_whose_text_has_no_title_is_counted() {
    let app = Setup::new().limits(3, 1).start();
    for (left, text) in [(2, "text"), (1, "# \u{202e}"), (0, "#")] {
        let answer = app.send(markdown(text)).await;
        answer.expect_error(400, "invalid_body");
        assert!(answer.header("ratelimit").starts_with(&format!("\"create\";r={left};")), "{answer:?}");
    }
    app.send(markdown("text")).await.expect_error(429, "rate_limited");
    app.send(markdown("# T")).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn a_preview_is_not_refused_for_a_title_that_nobody_sent() {
    let app = Setup::unlimited().start();
    for text in ["# a\u{202e}b\n\ntext", &format!("# {}\n\ntext", "t".repeat(MAX_CHARS + 1))] {
        let parts = [field("content", text), field("action", "preview")];
        let answer = app.send(form(&parts).header("accept", "application/json")).await;
        let article = answer.expect_status(200).field("article_html");
        assert_eq!(answer.json()["title"], Value::Null);
        assert!(article.contains("</h2>") && article.contains("<p>text</p>"), "{article}");
    }
    let named = form(&[("content", Some("\u{202e}.md"), b"text".as_slice()), field("action", "preview")]);
    app.send(named).await.expect_status(200);
}

#[tokio::test]
async fn a_preview_publishes_nothing_and_shows_the_pages_article() {
    let app = Setup::unlimited().start();
    // `security::corpora` compares many texts.
    let content = "# A *title*\n\nSome text and\n\n    code\n\n- a\n- b\n";
    let parts = [field("title", "A title"), field("content", content), field("action", "preview")];
    let json = app.send(form(&parts).header("accept", "application/json")).await;
    let article = json.expect_status(200).field("article_html");
    assert_eq!(json.field("title"), "A title");
    let text = app.send(form(&parts)).await;
    assert_eq!(text.expect_status(200).header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(text.text(), article);
    let html = app.send(form(&parts).header("accept", BROWSER)).await;
    assert!(html.expect_status(200).text().contains(&format!("dir=\"auto\">\n{article}\n</article>")), "{html:?}");
    assert_eq!(html.header("cache-control"), "no-store");
    assert_eq!(app.store.calls(), Calls::default(), "nothing is published");
    let raw = app.send(markdown("*a*").query("action=preview")).await;
    assert_eq!(raw.expect_status(200).text(), "<p><em>a</em></p>\n", "a preview needs no title");
    app.send(markdown("").query("action=preview")).await.expect_error(400, "empty_content");
    let unfit = form(&[field("title", "\u{202e}"), field("content", "x"), field("action", "preview")]);
    app.send(unfit).await.expect_error(400, "invalid_body");
}

#[tokio::test]
async fn a_text_with_a_key_s_form_is_published_with_a_warning() {
    let app = Setup::unlimited().start();
    let pasted = format!("hbk_{}", "a1B".repeat(15));
    let post = async |title: &str, content: &str, action: &str| {
        let parts = [field("title", title), field("content", content), field("action", action)];
        app.send(form(&parts).header("accept", BROWSER)).await
    };
    // The page has the warning for its script too.
    let shown = "role=\"status\"><span>Your text contains what looks like an edit key.";
    for (title, content, is_warned) in
        [("T", pasted.as_str(), true), (pasted.as_str(), "c", true), ("hbk_", &pasted[..46], false)]
    {
        let preview = post(title, content, "preview").await;
        assert_eq!(preview.expect_status(200).text().contains(shown), is_warned, "{preview:?}");
        assert!(preview.text().contains("<title>Preview"), "{preview:?}");
        let published = post(title, content, "publish").await;
        assert_eq!(published.expect_status(201).text().contains(shown), is_warned, "{published:?}");
        assert!(!published.text().contains(&pasted), "{published:?}");
    }
}

#[tokio::test]
async fn previews_have_a_limit_of_their_own_and_are_no_creates() {
    let app = Setup::new().limits(1, 1).start();
    let preview = || markdown("# T").query("action=preview");
    for left in (0..600).rev() {
        let answer = app.send(preview()).await;
        assert_eq!(answer.expect_status(200).header("ratelimit-policy"), "\"preview\";q=600;w=3600");
        assert!(answer.header("ratelimit").starts_with(&format!("\"preview\";r={left};")), "{answer:?}");
    }
    app.send(preview()).await.expect_error(429, "rate_limited");
    app.send(markdown("# T")).await.expect_status(201);
    app.send(markdown("# T")).await.expect_error(429, "rate_limited");
}
