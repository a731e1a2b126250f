//! What a read asks of the store, and what it makes of older pages there (spec §4.2).

use std::sync::Arc;

use handbill::clock::Clock;
use handbill::domain::content::Content;
use handbill::domain::edit_key::EditKey;
use handbill::domain::markdown::{RENDERER_VERSION, Rendered};
use handbill::domain::page::{Page, PageVersion};
use handbill::domain::slug::Slug;
use handbill::domain::title::Title;
use handbill::store::{Inserted, PageStore};

use crate::sections::read::read_what_no_slug_can_be;
use crate::support::app::TestApp;
use crate::support::stores::Calls;

#[tokio::test]
async fn a_read_is_one_lookup_and_changes_nothing() {
    let app = TestApp::new();
    let page = app.published().await;
    app.read(&page.slug).await.has(200);
    app.read(&page.slug).await.has(200);
    assert_eq!(app.store.calls(), Calls { inserts: 1, lookups: 2, swaps: 0 });
}

#[tokio::test]
async fn what_no_slug_can_be_is_answered_without_asking_the_store() {
    let app = TestApp::new();
    read_what_no_slug_can_be(&app).await;
    assert_eq!(app.store.calls(), Calls::default());
}

#[tokio::test]
async fn a_page_that_an_older_renderer_wrote_is_rendered_anew_when_it_is_read() {
    let app = TestApp::new();
    let slug = "old-page-2222bbbb";
    let old = Page {
        slug: Slug::parse(slug).unwrap(),
        title: Some(Title::parse("Old page").unwrap()),
        content: Content::parse("Some text.".to_owned()).unwrap(),
        rendered: Rendered {
            html: "<p>as it was</p>".to_owned(),
            link_origins: vec!["https://elsewhere.example".to_owned()],
            renderer_version: RENDERER_VERSION - 1,
        },
        key_hash: EditKey::draw(|_| 1).hash(),
        version: PageVersion::FIRST,
        created_at: app.clock.now(),
        updated_at: app.clock.now(),
    };
    assert_eq!(app.store.insert_if_absent(Arc::new(old)).await.unwrap(), Inserted::Done);
    let new = app.publish("New page", "Some text.").await;

    let (read, fresh) = (app.page(slug).await, app.page(&new.slug).await);
    assert_eq!(read["content_html"], fresh["content_html"]);
    assert_eq!(read["updated_at"], read["created_at"], "no change was made to the page");

    let html = app.get(&format!("/{slug}")).await;
    assert!(!html.text().contains("as it was"), "{html:?}");
    assert!(!html.headers.contains_key("x-robots-tag"), "the old renderer's links count no more: {html:?}");
    assert_eq!(app.read(slug).await.header("etag"), new.etag, "the tag names the renderer that made the answer");
}
