//! The page, the creation result and their fields (spec §2).

use std::time::Duration;

use serde_json::{Value, json};

use crate::in_process::app::{Setup, TestApp};

const SUFFIX_ALPHABET: &str = "23456789bcdfghjkmnpqrstvwxyz";

fn names(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_creation_result_has_the_four_fields_and_nothing_else() {
    let created = TestApp::new().create(json!({"title": "T", "content": "c"}).to_string()).await;
    assert_eq!(names(&created.expect_status(201).json()), ["created_at", "edit_key", "slug", "url"]);
    assert_eq!(created.header("cache-control"), "no-store", "it shows the key");
}

#[tokio::test]
async fn a_page_has_the_seven_fields_and_nothing_else() {
    let (app, page) = TestApp::with_page().await;
    let fields = ["content", "content_html", "created_at", "slug", "title", "updated_at", "url"];
    assert_eq!(names(&app.page(&page.slug).await), fields);
    assert_eq!(names(&app.update(&page, json!({"title": "Other"})).await.json()), fields);
}

#[tokio::test]
async fn a_slug_is_the_title_s_words_and_a_suffix_of_eight_characters() {
    let app = Setup::unlimited().start();
    let longest = "a".repeat(60);
    let titles = [
        ("Hello, world", "hello-world"),
        ("  --Hello---World!!  ", "hello-world"),
        ("Ünïcode Straße", "unicode-strasse"),
        ("Привет мир", "privet-mir"),
        ("北京", "bei-jing"),
        ("100 % pure", "100-pure"),
        ("?!?", "page"),
        (&"a".repeat(80), &longest),
        (&format!("{} b", "a".repeat(60)), &longest),
        (&format!("{} bcd", "a".repeat(57)), &"a".repeat(57)),
        (&format!("{} bc", "a".repeat(57)), &format!("{}-bc", "a".repeat(57))),
    ];
    for (title, words) in titles {
        let slug = app.publish(title, "c").await.slug;
        let (found, suffix) = slug.rsplit_once('-').unwrap();
        assert_eq!(found, words, "{title}");
        assert_eq!(suffix.len(), 8, "{slug}");
        assert!(suffix.chars().all(|c| SUFFIX_ALPHABET.contains(c)), "{slug}");
    }
}

#[tokio::test]
async fn an_edit_key_is_hbk_and_43_letters_and_digits_of_its_own() {
    let app = TestApp::new();
    let keys = [app.published().await.key, app.published().await.key];
    for key in &keys {
        let secret = key.strip_prefix("hbk_").unwrap();
        assert!(secret.len() == 43 && secret.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{key}");
    }
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn no_later_answer_shows_the_key() {
    let (app, page) = TestApp::with_page().await;
    let slug = &page.slug;
    let mut answers = vec![app.update(&page, json!({"content": "new"})).await];
    for target in [format!("/api/pages/{slug}"), format!("/{slug}"), format!("/{slug}.md")] {
        answers.push(app.get(&target).await.expect_status(200).clone());
    }
    answers.push(app.delete(&page).await);
    answers.push(app.read(slug).await);
    let secret = page.key.strip_prefix("hbk_").unwrap();
    for answer in answers {
        assert!(!format!("{:?} {}", answer.headers, answer.text()).contains(secret));
    }
}

#[tokio::test]
async fn the_url_is_made_when_the_page_is_served() {
    let before = TestApp::new();
    let page = before.published().await;
    let after = Setup::new().base_url("https://moved.example").over_the_store_of(&before).start();
    assert_eq!(after.page(&page.slug).await["url"], format!("https://moved.example/{}", page.slug));
}

#[tokio::test]
async fn a_key_does_not_expire() {
    let (app, page) = TestApp::with_page().await;
    app.clock.advance(Duration::from_hours(24 * 365 * 10));
    app.update(&page, json!({"title": "Ten years later"})).await.expect_status(200);
}

#[tokio::test]
async fn timestamps_are_utc_with_three_decimals() {
    let app = TestApp::new();
    let created = app.create(json!({"title": "T", "content": "c"}).to_string()).await;
    assert_eq!(created.field("created_at"), "2026-11-21T04:30:00.123Z");
    let page = app.page(&created.field("slug")).await;
    assert_eq!(page["created_at"], "2026-11-21T04:30:00.123Z");
    assert_eq!(page["updated_at"], page["created_at"], "until the first change");

    // A whole second has its decimals too.
    app.clock.advance(Duration::from_millis(877));
    let created = app.create(json!({"title": "T", "content": "c"}).to_string()).await;
    assert_eq!(created.field("created_at"), "2026-11-21T04:30:01.000Z");
}

#[tokio::test]
async fn updated_at_is_the_time_of_the_last_change() {
    let (app, page) = TestApp::with_page().await;
    app.clock.advance(Duration::from_mins(1));
    let updated = app.update(&page, json!({"title": "Other"})).await.json();
    assert_eq!(updated["created_at"], "2026-11-21T04:30:00.123Z");
    assert_eq!(updated["updated_at"], "2026-11-21T04:31:00.123Z");
    assert_eq!(app.page(&page.slug).await, updated);
}

#[tokio::test]
async fn updated_at_grows_with_each_change_however_the_clock_stands() {
    let (app, page) = TestApp::with_page().await;
    let mut last = app.page(&page.slug).await["updated_at"].as_str().unwrap().to_owned();
    for (hours, content) in [(0, "a"), (0, "b"), (0, "b"), (5, "c"), (5, "d")] {
        app.clock.set_back(Duration::from_hours(hours));
        let next = app.update(&page, json!({"content": content})).await.field("updated_at");
        assert!(next > last, "{next} is not after {last}");
        last = next;
    }
}

#[tokio::test]
async fn a_slug_that_a_page_has_or_had_is_given_to_no_other() {
    for is_deleted in [false, true] {
        let app = TestApp::new();
        let first = app.publish("Same", "first").await;
        if is_deleted {
            app.delete(&first).await.expect_status(204);
        }
        app.random().rewind();
        let second = app.publish("Same", "second").await;
        assert_eq!(app.store.calls().inserts, 3, "the second create met the first one's slug");
        assert_ne!(first.slug, second.slug);
        app.read(&first.slug).await.expect_status(if is_deleted { 410 } else { 200 });
        assert_eq!(app.page(&second.slug).await["content"], "second");
    }
}

#[tokio::test]
async fn without_a_free_slug_nothing_is_published() {
    let app = TestApp::new();
    app.random().stick();
    let first = app.publish("Same", "first").await;
    app.create(json!({"title": "Same", "content": "second"}).to_string()).await.expect_error(503, "unavailable");
    assert_eq!(app.page(&first.slug).await["content"], "first");
}
