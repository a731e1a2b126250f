//! Creating a page (spec §4.1).

use serde_json::json;

use super::openapi::{max_content_bytes, max_title_chars};
use crate::in_process::app::{BASE_URL, Setup, TestApp};
use crate::in_process::exchange::Request;

fn body(title: &str, content: &str) -> String {
    json!({"title": title, "content": content}).to_string()
}

#[tokio::test]
async fn a_valid_create_answers_201_and_says_where_the_page_is() {
    let app = TestApp::new();
    let created = app.create(body("Hello", "Text")).await;
    let slug = created.expect_status(201).field("slug");
    assert_eq!(created.field("url"), format!("{BASE_URL}/{slug}"));
    assert_eq!(created.header("location"), format!("{BASE_URL}/api/pages/{slug}"));
    let read = app.read(&slug).await;
    assert_eq!(created.header("etag"), read.header("etag"));
    let page = read.json();
    assert_eq!((page["title"].as_str(), page["content"].as_str()), (Some("Hello"), Some("Text")));
    assert_eq!(page["created_at"], created.field("created_at").as_str());
    assert_eq!(page["url"], created.field("url").as_str());
    app.get(&format!("/{slug}")).await.expect_status(200);
}

#[tokio::test]
async fn a_create_needs_no_credential_and_minds_none() {
    let app = TestApp::new();
    app.send(Request::create(body("T", "c")).header("authorization", "Bearer nonsense")).await.expect_status(201);
}

#[tokio::test]
async fn a_title_is_trimmed() {
    let app = TestApp::new();
    let page = app.publish(" \u{a0}\t\u{2028} Hello  world \n\u{2029}", "c").await;
    assert_eq!(app.page(&page.slug).await["title"], "Hello  world");
}

#[tokio::test]
async fn the_longest_title_is_accepted_and_a_longer_one_is_not() {
    let app = Setup::unlimited().start();
    // Scalar values are counted, and not bytes or what looks like one character.
    for character in ["a", "é", "漢", "\u{1f600}"] {
        let longest = character.repeat(max_title_chars());
        let page = app.publish(&longest, "c").await;
        assert_eq!(app.page(&page.slug).await["title"], longest.as_str());
        let answer = app.create(body(&character.repeat(max_title_chars() + 1), "c")).await;
        assert!(answer.expect_error(400, "invalid_body").field("message").contains("`title`"));
    }
    let trimmed = format!("   {}   ", "a".repeat(max_title_chars()));
    app.create(body(&trimmed, "c")).await.expect_status(201);
}

#[tokio::test]
async fn a_control_or_separator_within_a_title_answers_400() {
    let app = TestApp::new();
    let controls = ['\0', '\t', '\n', '\u{1b}', '\u{7f}', '\u{85}', '\u{2028}', '\u{2029}'];
    for refused in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain(controls) {
        let answer = app.create(body(&format!("a{refused}b"), "c")).await;
        let message = answer.expect_error(400, "invalid_body").field("message");
        assert!(message.contains("`title`") && message.contains(&format!("U+{:04X}", u32::from(refused))), "{message}");
    }
    let message = app.create(body("\u{2069}", "c")).await.expect_error(400, "invalid_body").field("message");
    assert!(message.contains("U+2069"), "it is named although the title shows nothing else: {message}");
}

#[tokio::test]
async fn marks_and_joiners_are_kept_in_a_title() {
    let app = Setup::unlimited().start();
    for kept in ["a\u{200e}b", "a\u{200f}b", "a\u{61c}b", "می\u{200c}خواهم", "👩\u{200d}💻", "a\u{2060}b"] {
        let page = app.publish(kept, "c").await;
        assert_eq!(app.page(&page.slug).await["title"], kept);
    }
}

#[tokio::test]
async fn a_title_that_shows_nothing_answers_400_on_create() {
    let app = TestApp::new();
    let long = "\u{200b}\u{2800}".repeat(200);
    for title in ["", "\t\r\n ", &*long, "\u{200b}", "\u{2800}", "\u{3164}", "\u{ad} \u{2060}\u{feff}", "\u{e0041}"] {
        let message = app.create(body(title, "c")).await.expect_error(400, "invalid_body").field("message");
        assert!(message.contains("`title` is empty"), "{message}");
    }
}

#[tokio::test]
async fn content_of_102400_bytes_of_utf_8_is_accepted_and_no_more() {
    let app = TestApp::new();
    app.create(body("T", &"é".repeat(max_content_bytes() / 2))).await.expect_status(201);
    let longer = format!("{}a", "é".repeat(max_content_bytes() / 2));
    app.create(body("T", &longer)).await.expect_error(413, "content_too_large");
}

#[tokio::test]
async fn content_is_kept_byte_for_byte() {
    let app = Setup::unlimited().start();
    let contents = [
        " ",
        "line\r\nline\rline\n",
        "trailing  \n\n\n  ",
        "\u{feff}with a byte order mark",
        "nul \0 and escape \u{1b}",
        "e\u{301} is not é",
        "\u{202e}right to left\u{202c} \u{1f469}\u{200d}\u{1f680}",
        "<script>alert(1)</script> &amp; \"quotes\" \\ /",
    ];
    for content in contents {
        let page = app.publish("T", content).await;
        assert_eq!(app.page(&page.slug).await["content"], content);
        let source = app.get(&format!("/{}.md", page.slug)).await;
        assert_eq!(source.expect_status(200).header("content-type"), "text/markdown; charset=utf-8");
        assert_eq!(source.text(), content);
    }
}
