//! Reading a page (spec §4.2).

use crate::support::app::TestApp;
use crate::support::exchange::Request;

#[tokio::test]
async fn a_page_is_read_whatever_credential_is_sent() {
    let app = TestApp::new();
    let page = app.published().await;
    let path = format!("/api/pages/{}", page.slug);
    app.send(Request::get(&path).header("authorization", "Bearer nonsense")).await.expect_status(200);
    app.send(Request::get(&path).key(&page.key)).await.expect_status(200);
}

#[tokio::test]
async fn reading_is_not_limited() {
    let app = TestApp::new();
    let page = app.published().await;
    for _ in 0..100 {
        let answer = app.read(&page.slug).await;
        answer.expect_status(200);
        assert!(!answer.headers.contains_key("ratelimit"));
    }
}

#[tokio::test]
async fn head_answers_as_get_without_a_body() {
    let app = TestApp::new();
    let page = app.published().await;
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
async fn a_path_that_no_slug_can_be_answers_404() {
    read_what_no_slug_can_be(&TestApp::new()).await;
}

/// Fails unless every view of a text that cannot be a slug answers 404.
pub(crate) async fn read_what_no_slug_can_be(app: &TestApp) {
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
}

#[tokio::test]
async fn a_slug_may_be_percent_encoded() {
    let app = TestApp::new();
    let page = app.publish("hello", "c").await;
    let encoded = page.slug.replacen('h', "%68", 1);
    assert_eq!(app.read(&encoded).await.expect_status(200).field("slug"), page.slug);
}
