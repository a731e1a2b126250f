//! Which pages must not be indexed, by the links that the store has of them (contract, decision 13).

use std::sync::Arc;

use handbill_core::domain::slug::Slug;
use handbill_core::ports::page_store::{InsertResult, PageStore};

use crate::in_process::app::{Setup, TestApp};
use crate::support::app::BASE_URL;
use crate::support::exchange::Request;
use crate::support::pages::page_at;

const NOINDEX_META: &str = r#"<meta name="robots" content="noindex">"#;

/// Puts a page with these links straight into the store and returns its slug.
async fn page_with_links_to(app: &TestApp, origins: &[&str]) -> &'static str {
    let slug = "linked-page-2222bbbb";
    let mut page = page_at(Slug::parse(slug).unwrap(), "Some *text*.");
    page.head.title = None;
    page.head.link_origins = origins.iter().map(|&origin| origin.to_owned()).collect();
    assert_eq!(app.store.insert_if_absent(Arc::new(page), None).await.unwrap(), InsertResult::Inserted);
    slug
}

#[tokio::test]
async fn a_page_with_an_external_link_is_not_to_be_indexed_in_any_view() {
    let app = TestApp::new();
    let slug = page_with_links_to(&app, &["https://elsewhere.example"]).await;
    let html = app.get(&format!("/{slug}")).await;
    assert!(html.expect_status(200).text().contains(NOINDEX_META), "{html:?}");
    assert!(html.header("x-robots-tag").contains("noindex"));
    let markdown = app.get(&format!("/{slug}.md")).await;
    assert!(markdown.expect_status(200).header("x-robots-tag").contains("noindex"));
    let negotiated = app.send(Request::get(format!("/{slug}")).header("accept", "text/markdown")).await;
    assert!(negotiated.header("x-robots-tag").contains("noindex"));
}

#[tokio::test]
async fn a_page_without_an_external_link_may_be_indexed_in_every_view() {
    for origins in [[].as_slice(), &[BASE_URL]] {
        let app = TestApp::new();
        let slug = page_with_links_to(&app, origins).await;
        for target in [format!("/{slug}"), format!("/{slug}.md")] {
            let answer = app.get(&target).await;
            assert!(!answer.expect_status(200).headers.contains_key("x-robots-tag"), "{answer:?}");
            assert!(!answer.text().contains("noindex"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_link_is_external_by_the_base_url_at_the_time_of_serving() {
    let before = Setup::new().base_url("https://one.example").start();
    let after = Setup::new().base_url("https://two.example").over_the_store_of(&before).start();
    let slug = page_with_links_to(&before, &["https://one.example"]).await;
    assert!(!before.get(&format!("/{slug}")).await.headers.contains_key("x-robots-tag"));
    assert_eq!(after.get(&format!("/{slug}")).await.header("x-robots-tag"), "noindex");
}

#[tokio::test]
async fn the_same_host_over_another_scheme_or_port_is_external() {
    for origin in ["http://pages.example", "https://pages.example:8443", "https://www.pages.example"] {
        let app = TestApp::new();
        let slug = page_with_links_to(&app, &[BASE_URL, origin]).await;
        assert_eq!(app.get(&format!("/{slug}")).await.header("x-robots-tag"), "noindex", "{origin}");
    }
}
