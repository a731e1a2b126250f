//! The permission for shared caches to keep pages (contract, decision 21).

use std::time::Duration;

use handbill::http::SiteSettings;
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::support::exchange::Request;

#[tokio::test]
async fn with_edge_max_age_html_and_markdown_alone_may_be_kept() {
    let site = SiteSettings { edge_max_age: Some(Duration::from_mins(5)), ..SiteSettings::default() };
    let app = Setup::unlimited().site(site).start();
    let (page, gone) = (app.published().await, app.deleted().await);
    let ask = |target: String, accept: &'static str| app.send(Request::get(target).header("accept", accept));
    for target in [format!("/{}", page.slug), format!("/{}.md", page.slug)] {
        let answer = ask(target.clone(), "text/html").await;
        let again = Request::get(&target).header("if-none-match", answer.expect_status(200).header("etag"));
        let unchanged = app.send(again).await;
        unchanged.expect_status(304);
        for answer in [answer, unchanged] {
            assert_eq!(answer.header("cdn-cache-control"), "max-age=300", "{target}");
            assert_eq!(answer.header("cache-control"), "no-cache", "browsers ask each time");
        }
    }
    for (target, accept) in [
        (format!("/{}", page.slug), "text/markdown"),
        (format!("/api/pages/{}", page.slug), "*/*"),
        (format!("/{}", gone.slug), "text/html"),
        (format!("/{}.md", gone.slug), "text/html"),
        (format!("/{}", gone.slug), "*/*"),
        ("/never-was-2222bbbb".to_owned(), "text/html"),
        ("/never-was-2222bbbb.md".to_owned(), "*/*"),
        (format!("/{}/edit", page.slug), "text/html"),
        ("/".to_owned(), "text/html"),
    ] {
        let answer = ask(target.clone(), accept).await;
        assert!(!answer.headers.contains_key("cdn-cache-control"), "{target} as {accept}: {answer:?}");
    }
    let updated = app.update(&page, json!({"content": "new"})).await;
    assert!(!updated.expect_status(200).headers.contains_key("cdn-cache-control"));
}

#[tokio::test]
async fn by_default_no_shared_cache_may_show_a_page_unasked() {
    let app = TestApp::new();
    let page = app.published().await;
    for target in [format!("/{}", page.slug), format!("/{}.md", page.slug), format!("/api/pages/{}", page.slug)] {
        let answer = app.get(&target).await;
        assert_eq!(answer.expect_status(200).header("cache-control"), "no-cache");
        for field in ["cdn-cache-control", "surrogate-control", "expires", "x-accel-expires"] {
            assert!(!answer.headers.contains_key(field), "{field} at {target}");
        }
    }
}
