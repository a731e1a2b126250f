//! The page, the creation result and their fields (spec §2).

use serde_json::{Value, json};

use crate::support::app::{BASE_URL, Setup, TestApp};
use crate::support::exchange::Request;

const SUFFIX_ALPHABET: &str = "23456789bcdfghjkmnpqrstvwxyz";

fn names(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_creation_result_has_the_four_fields_and_nothing_else() {
    let created = TestApp::new().create(json!({"title": "T", "content": "c"}).to_string()).await;
    created.expect_status(201);
    assert_eq!(names(&created.json()), ["created_at", "edit_key", "slug", "url"]);
}

#[tokio::test]
async fn a_page_has_the_seven_fields_and_nothing_else() {
    let app = TestApp::new();
    let page = app.published().await;
    let fields = ["content", "content_html", "created_at", "slug", "title", "updated_at", "url"];
    assert_eq!(names(&app.page(&page.slug).await), fields);
    assert_eq!(names(&app.update(&page, json!({"title": "Other"})).await.json()), fields);
}

#[tokio::test]
async fn a_page_says_what_was_published() {
    let app = TestApp::new();
    let page = app.publish("A title", "Some *text*.").await;
    let read = app.page(&page.slug).await;
    assert_eq!(read["slug"], page.slug.as_str());
    assert_eq!(read["title"], "A title");
    assert_eq!(read["content"], "Some *text*.");
    assert!(read["content_html"].as_str().unwrap().contains("Some "));
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
async fn two_pages_of_one_title_have_slugs_of_their_own() {
    let app = TestApp::new();
    assert_ne!(app.published().await.slug, app.published().await.slug);
}

#[tokio::test]
async fn the_url_is_the_base_url_and_the_slug_and_leads_to_the_page() {
    the_url_leads_to_the_page(&TestApp::new(), BASE_URL).await;
}

/// Fails unless the address of a page that `app` publishes begins with `base_url` and is the page's.
pub(crate) async fn the_url_leads_to_the_page(app: &TestApp, base_url: &str) {
    let created = app.create(json!({"title": "T", "content": "c"}).to_string()).await;
    let url = created.field("url");
    assert_eq!(url, format!("{base_url}/{}", created.field("slug")));
    assert_eq!(app.page(&created.field("slug")).await["url"], url.as_str());
    app.get(url.strip_prefix(base_url).unwrap()).await.expect_status(200);
}

#[tokio::test]
async fn an_edit_key_is_hbk_and_43_letters_and_digits() {
    let key = TestApp::new().published().await.key;
    let secret = key.strip_prefix("hbk_").unwrap();
    assert_eq!(secret.len(), 43);
    assert!(secret.bytes().all(|byte| byte.is_ascii_alphanumeric()));
}

#[tokio::test]
async fn every_page_has_a_key_of_its_own() {
    let app = TestApp::new();
    assert_ne!(app.published().await.key, app.published().await.key);
}

#[tokio::test]
async fn no_later_answer_shows_the_key() {
    let app = TestApp::new();
    let page = app.published().await;
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
async fn the_answer_that_shows_the_key_is_kept_by_no_cache() {
    let created = TestApp::new().create(json!({"title": "T", "content": "c"}).to_string()).await;
    assert_eq!(created.header("cache-control"), "no-store");
}

#[tokio::test]
async fn updated_at_equals_created_at_until_the_first_change() {
    let app = TestApp::new();
    let page = app.published().await;
    let read = app.page(&page.slug).await;
    assert_eq!(read["updated_at"], read["created_at"]);
}

#[tokio::test]
async fn updated_at_grows_with_each_change_while_time_stands_still() {
    let app = TestApp::new();
    let page = app.published().await;
    let mut last = app.page(&page.slug).await["updated_at"].as_str().unwrap().to_owned();
    for content in ["a", "b", "b"] {
        let next = app.update(&page, json!({"content": content})).await.field("updated_at");
        assert!(next > last, "{next} is not after {last}");
        last = next;
    }
}

#[tokio::test]
async fn the_slug_is_in_the_location_of_the_created_page() {
    let app = TestApp::new();
    let created = app.create(json!({"title": "T", "content": "c"}).to_string()).await;
    let path = created.header("location").strip_prefix(BASE_URL).unwrap().to_owned();
    assert_eq!(app.send(Request::get(path)).await.field("slug"), created.field("slug"));
}
