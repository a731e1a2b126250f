//! Reading a page (spec §4.2).

use std::sync::Arc;
use std::time::Duration;

use handbill_pages::ports::clock::Clock;
use handbill_pages::ports::page_store::{Expected, PageStore, PutResult};
use handbill_pages::values::head::{PageHead, PageVersion};
use handbill_pages::values::markdown::{RENDERER_VERSION, Rendered};
use handbill_pages::values::page::Page;
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::Slug;
use handbill_test_support::pages::{page_at, replace};
use serde_json::json;

use crate::in_process::app::{Published, Setup, TestApp};
use crate::in_process::exchange::Request;
use crate::in_process::heads_first::{HeadsFirst, replica};
use crate::in_process::stores::Calls;

#[tokio::test]
async fn a_page_is_read_whatever_credential_is_sent() {
    let (app, page) = TestApp::with_page().await;
    let path = format!("/api/pages/{}", page.slug);
    app.send(Request::get(&path).header("authorization", "Bearer nonsense")).await.expect_status(200);
    app.send(Request::get(&path).key(&page.key)).await.expect_status(200);
}

#[tokio::test]
async fn a_part_of_the_content_comes_only_to_a_client_that_names_it() {
    let app = Setup::unlimited().start();
    let (page, deleted) = (app.publish("T", "aéb").await, app.deleted().await);
    let path = format!("/api/pages/{}", page.slug);
    let whole = app.read(&page.slug).await;
    for query in ["", "limit=1", "Offset=1", "maxchars=1"] {
        assert_eq!(app.get(&format!("{path}?{query}")).await.body, whole.body, "{query}");
    }
    for (query, content, next) in [
        ("offset=1&max_chars=1", "é", Some(2)),
        ("max_chars=2&other=x", "aé", Some(2)),
        ("offset=3", "", None),
        ("offset=99999999999999999999&max_chars=99999999999999999999", "", None),
    ] {
        let answer = app.get(&format!("{path}?{query}")).await;
        let part = answer.expect_status(200).json();
        assert_eq!((&part["content"], &part["total_chars"]), (&json!(content), &json!(3)), "{query}");
        assert_eq!(part.get("next_offset"), next.map(|next| json!(next)).as_ref(), "{query}");
        assert_eq!((&part["updated_at"], part.get("content_html")), (&whole.json()["updated_at"], None), "{query}");
        assert_eq!(answer.header("cache-control"), "no-cache", "{query}");
        assert_ne!(answer.header("etag"), whole.header("etag"), "{query}");
        let held = Request::get(&path).query(query).header("if-none-match", answer.header("etag"));
        app.send(held).await.expect_status(304);
        let update = Request::update(&page.slug, "{}").key(&page.key).header("if-match", answer.header("etag"));
        app.send(update).await.expect_status(200);
    }
    for query in ["offset=x", "offset=", "offset=-1", "offset=1.5", "max_chars=0", "offset=1&offset=2"] {
        for (slug, status, code) in
            [(&*page.slug, 400, "invalid_body"), ("never-was-2222bbbb", 404, "not_found"), (&deleted.slug, 410, "gone")]
        {
            app.get(&format!("/api/pages/{slug}?{query}")).await.expect_error(status, code);
        }
        let with_key = format!("{path}?{query}&x={}", page.key);
        app.get(&with_key).await.expect_error(401, "key_in_query");
    }
    app.get(&format!("{path}?offset=0&x={}", page.key)).await.expect_error(401, "key_in_query");
}

#[tokio::test]
async fn reading_is_not_limited() {
    let (app, page) = TestApp::with_page().await;
    for _ in 0..100 {
        let answer = app.read(&page.slug).await;
        answer.expect_status(200);
        assert!(!answer.headers.contains_key("ratelimit"));
    }
}

#[tokio::test]
async fn head_answers_as_get_without_a_body() {
    let (app, page) = TestApp::with_page().await;
    for path in [format!("/api/pages/{}", page.slug), format!("/{}", page.slug), format!("/{}.md", page.slug)] {
        let get = app.get(&path).await;
        let head = app.send(Request::new("HEAD", &path)).await;
        head.expect_status(200);
        assert!(head.body.is_empty());
        for name in ["content-type", "etag", "cache-control", "content-length"] {
            assert_eq!(head.header(name), get.header(name), "{name} of {path}");
        }
    }
}

#[tokio::test]
async fn a_path_that_no_slug_can_be_is_404_and_reaches_no_store() {
    let app = TestApp::new();
    let names = [
        "hello",
        "hello-world",
        "-2222bbbb",
        "hello--world-2222bbbb",
        "Hello-2222bbbb",
        "hello-2222bbb",
        "hello-2222bbbbb",
        "hello-2222bbba",
        "hello-0000bbbb",
        "hello-2222BBBB",
        "hello_world-2222bbbb",
        "h%C3%A9llo-2222bbbb",
        "hello-2222bbbb%00",
        "hello%20-2222bbbb",
        "a%2Fb-2222bbbb",
        "%2e%2e",
        "%FF%FE",
        "%zz",
        "%",
        &format!("{}-2222bbbb", "a".repeat(61)),
        &"a".repeat(5000),
    ];
    for name in names {
        app.read(name).await.expect_error(404, "not_found");
        app.get(&format!("/{name}")).await.expect_status(404);
        app.get(&format!("/{name}.md")).await.expect_status(404);
    }
    assert_eq!(app.store.calls(), Calls::default());
}

#[tokio::test]
async fn a_slug_may_be_percent_encoded() {
    let app = TestApp::new();
    let page = app.publish("hello", "c").await;
    let encoded = page.slug.replacen('h', "%68", 1);
    assert_eq!(app.read(&encoded).await.expect_status(200).field("slug"), page.slug);
}

/// Reads `target` until the answer has the coding that was asked for, and what is kept has at most 1.3 times the bytes of
/// its body and 300 more. Both are made beside the requests. Returns the lengths of the body and of what is kept.
async fn sent_and_kept(app: &TestApp, target: &str, coding: &str) -> (usize, usize) {
    let begun = std::time::Instant::now();
    loop {
        let answer = app.send(Request::get(target).header("accept-encoding", coding)).await;
        let (sent, kept) = (answer.expect_status(200).body.len(), app.cached_bytes());
        let is_coded =
            answer.headers.get("content-encoding").map_or("identity", |value| value.to_str().unwrap()) == coding;
        if is_coded && kept <= sent * 13 / 10 + 300 {
            return (sent, kept);
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{target}, {coding}: {kept} for {sent}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_kept_of_a_page_is_little_more_than_what_is_sent() {
    const MIXED: &str = include_str!("../../../benches/documents/mixed.md");
    for content in [&MIXED[..2048], MIXED, &MIXED.repeat(5)] {
        let page_at = async |app: &TestApp| app.publish("Hello, world", content).await.slug;
        for coding in ["identity", "gzip"] {
            for form in 0..3 {
                let app = TestApp::new();
                let slug = page_at(&app).await;
                let target = [format!("/api/pages/{slug}"), format!("/{slug}"), format!("/{slug}.md")][form].clone();
                let (sent, kept) = sent_and_kept(&app, &target, coding).await;
                // The frame of HTML is kept once for all pages.
                assert_eq!(kept > sent, form != 1, "{target}, {coding}: {kept} for {sent}");
                assert!(form != 1 || content.len() > 2048 || kept <= 5 * 1024, "{target}, {coding}: {kept}");
            }
        }
    }
}

#[tokio::test]
async fn a_page_that_another_replica_changed_is_not_sent_as_it_was() {
    let (one, shared) = (TestApp::new(), HeadsFirst::new());
    let other = Setup::new().over_the_store_of(&one).start();
    for (one, other) in [(one, other), (replica(&shared), replica(&shared))] {
        let page = one.published().await;
        for round in 0..3 {
            let content = format!("round {round}");
            one.update(&page, json!({"content": content})).await.expect_status(200);
            for replica in [&one, &other, &one, &other] {
                assert_eq!(replica.page(&page.slug).await["content"], content);
            }
        }
        one.delete(&page).await.expect_status(204);
        other.read(&page.slug).await.expect_error(410, "gone");
    }
}

/// A page as an older renderer wrote it, with a link to another site.
pub(crate) fn written_by_an_older_renderer(app: &TestApp, slug: &str) -> Arc<Page> {
    let Page { head, text } = page_at(Slug::parse(slug).unwrap(), "Some text.");
    let rendered = Rendered {
        html: "<p>as it was</p>".to_owned(),
        excerpt: "as it was".to_owned(),
        link_origins: vec!["https://elsewhere.example".to_owned()],
        renderer_version: RENDERER_VERSION - 1,
        ..Rendered::default()
    };
    let head = PageHead { created_at: app.clock.now(), updated_at: app.clock.now(), ..head };
    Arc::new(Page::new(head, text.content, rendered))
}

#[tokio::test]
async fn a_page_of_an_older_renderer_is_rendered_again_when_read() {
    let app = TestApp::new();
    let slug = "old-page-2222bbbb";
    let old = written_by_an_older_renderer(&app, slug);
    assert_eq!(app.store.put(Expected::Absent, Record::Active(old), None).await.unwrap(), PutResult::Done);
    let new = app.publish("New page", "Some text.").await;

    let (read, fresh) = (app.page(slug).await, app.page(&new.slug).await);
    assert_eq!(read["content_html"], fresh["content_html"]);
    assert_eq!(read["updated_at"], read["created_at"], "no change was made to the page");

    let html = app.get(&format!("/{slug}")).await;
    assert!(!html.text().contains("as it was"), "{html:?}");
    assert!(html.text().contains(r#"<meta name="description" content="Some text.">"#), "{html:?}");
    assert!(!html.headers.contains_key("x-robots-tag"), "the old renderer's links count no more: {html:?}");
    assert_eq!(app.read(slug).await.header("etag"), new.etag, "the tag names the renderer that made the answer");
}

async fn stored(app: &TestApp, page: &Published) -> Arc<Page> {
    match app.stored(&page.slug).await {
        Some(Record::Active(page)) => page,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_old_page_whose_title_changes_is_rendered_once() {
    let (app, page) = TestApp::with_page().await;
    let current = stored(&app, &page).await;
    let mut old = Page::clone(&current);
    old.head.state.renderer_version = RENDERER_VERSION - 1;
    old.text.html = String::from("<p>as it was</p>");
    old.text.excerpt = String::from("as it was");
    replace(&*app.store, &current.head, Record::Active(Arc::new(old))).await;
    let renders = || {
        let metrics = app.metrics.exposition();
        let count = metrics.lines().find_map(|line| line.strip_prefix("handbill_render_duration_seconds_count "));
        count.expect("it is counted").parse::<u64>().unwrap()
    };
    let before = renders();
    app.update(&page, json!({"title": "Another"})).await.expect_status(200);
    app.page(&page.slug).await;
    assert_eq!(renders() - before, 1);
    let stored = stored(&app, &page).await;
    assert_eq!((&stored.text, stored.head.version), (&current.text, PageVersion::FIRST.next()));
}
