//! The requests that tests send to a service, whichever way [`TestApp::send`] takes to it.

use axum::body::Body;
use handbill_pages::ports::random::{Random, index_below};
use handbill_pages::values::edit_key::EditKey;
use serde_json::{Value, json};

use super::app::TestApp;
use super::exchange::{Answer, Request};

/// A key as a client makes it. No two are the same, because the tests of a program may share a store.
pub(crate) fn new_key() -> String {
    EditKey::random(|bound| index_below(&Random::System, bound)).reveal().to_owned()
}

/// A page that a test has published.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) slug: String,
    pub(crate) key: String,
    pub(crate) etag: String,
}

impl TestApp {
    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.send(Request::get(target)).await
    }

    pub(crate) async fn create(&self, body: impl Into<Body>) -> Answer {
        self.send(Request::create(body)).await
    }

    /// Publishes a page that is sure to be valid.
    pub(crate) async fn publish(&self, title: &str, content: &str) -> Published {
        let answer = self.create(json!({"title": title, "content": content}).to_string()).await;
        answer.expect_status(201);
        Published { slug: answer.field("slug"), key: answer.field("edit_key"), etag: answer.header("etag").to_owned() }
    }

    /// A page about nothing in particular.
    pub(crate) async fn published(&self) -> Published {
        self.publish("Hello, world", "A *first* page.").await
    }

    /// An update with the page's own key.
    pub(crate) async fn update(&self, page: &Published, fields: Value) -> Answer {
        self.send(Request::update(&page.slug, fields.to_string()).key(&page.key)).await
    }

    /// A delete with the page's own key.
    pub(crate) async fn delete(&self, page: &Published) -> Answer {
        self.send(Request::delete(&page.slug).key(&page.key)).await
    }

    /// A page that was published and deleted.
    pub(crate) async fn deleted(&self) -> Published {
        let page = self.published().await;
        self.delete(&page).await.expect_status(204);
        page
    }

    pub(crate) async fn read(&self, slug: &str) -> Answer {
        self.get(&format!("/api/pages/{slug}")).await
    }

    /// The page as it stands.
    pub(crate) async fn page(&self, slug: &str) -> Value {
        let answer = self.read(slug).await;
        answer.expect_status(200);
        answer.json()
    }
}
