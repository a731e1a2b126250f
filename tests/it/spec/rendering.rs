//! The turns of texts that are rendered, and the answers if a text is not rendered (contract, decisions 1, 3 and 19).

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use handbill_pages::ports::page_store::{Expected, PageStore, PutResult};
use handbill_pages::ports::renderer::{ContentChecks, Purpose, RenderError, RenderOutcome, Renderer};
use handbill_pages::service::RenderInPlace;
use handbill_pages::values::content::Content;
use handbill_pages::values::markdown::RENDERER_VERSION;
use handbill_pages::values::record::Record;
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::Request;
use crate::spec::form::{field, form};

/// A renderer that remembers its calls, and may refuse them.
#[derive(Default)]
struct Watched {
    calls: Mutex<Vec<Purpose>>,
    refusal: Mutex<Option<RenderError>>,
}

impl Watched {
    fn called(&self, purpose: Purpose) -> Result<(), RenderError> {
        self.calls.lock().unwrap().push(purpose);
        self.refusal.lock().unwrap().map_or(Ok(()), Err)
    }

    /// The calls since the last time that this was asked.
    fn calls(&self) -> Vec<Purpose> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn refuse(&self, error: impl Into<Option<RenderError>>) {
        *self.refusal.lock().unwrap() = error.into();
    }
}

#[async_trait]
impl Renderer for Watched {
    async fn render(
        &self,
        content: &Content,
        purpose: Purpose,
        checks: ContentChecks,
    ) -> Result<RenderOutcome, RenderError> {
        self.called(purpose)?;
        RenderInPlace.render(content, purpose, checks).await
    }
}

fn start(setup: Setup) -> (TestApp, Arc<Watched>) {
    let renderer = Arc::new(Watched::default());
    (setup.rendering_with(Arc::clone(&renderer) as _).start(), renderer)
}

fn markdown(text: &'static str) -> Request {
    Request::new("POST", "/").header("content-type", "text/markdown").body(text)
}

/// Each way to send a text that is rendered: a create or preview, with or without a title.
fn posts() -> [Request; 5] {
    [
        Request::new("POST", "/api/pages").json(r##"{"title": "T", "content": "# c"}"##),
        markdown("# c").query("title=T"),
        markdown("# c"),
        markdown("# c").query("action=preview"),
        form(&[field("content", "# c"), field("action", "preview")]),
    ]
}

#[tokio::test]
async fn no_text_is_parsed_before_the_limiter_admits_its_client() {
    let (app, renderer) = start(Setup::new().limits(1, 1));
    app.send(markdown("# c")).await.expect_status(201);
    for _ in 0..600 {
        app.send(markdown("# c").query("action=preview")).await.expect_status(200);
    }
    assert_eq!(renderer.calls().len(), 601);
    for post in posts() {
        app.send(post).await.expect_error(429, "rate_limited");
    }
    app.send(markdown("no title")).await.expect_error(429, "rate_limited");
    assert_eq!(renderer.calls(), []);
}

#[tokio::test]
async fn each_rendering_names_its_purpose() {
    let (app, renderer) = start(Setup::unlimited());
    let page = app.published().await;
    app.update(&page, json!({"content": "new"})).await.expect_status(200);
    app.send(markdown("# c").query("action=preview")).await.expect_status(200);
    assert_eq!(renderer.calls(), [Purpose::Write, Purpose::Write, Purpose::Preview]);
    let Some(Record::Active(stored)) = app.stored(&page.slug).await else { panic!("it is there") };
    let mut old = Arc::unwrap_or_clone(stored);
    old.head.state.renderer_version = RENDERER_VERSION - 1;
    let (other, renderer) = start(Setup::unlimited());
    let inserted = other.store.put(Expected::Absent, Record::Active(Arc::new(old)), None).await.unwrap();
    assert_eq!(inserted, PutResult::Done);
    for _ in 0..2 {
        other.read(&page.slug).await.expect_status(200);
    }
    assert_eq!(renderer.calls(), [Purpose::Upkeep], "the second answer comes from the page cache");
}

#[tokio::test]
async fn a_text_that_finds_no_room_to_be_rendered_answers_503() {
    let (app, renderer) = start(Setup::unlimited());
    let page = app.published().await;
    let before = app.page(&page.slug).await;
    renderer.refuse(RenderError);
    for post in posts() {
        let answer = app.send(post).await;
        assert!(answer.expect_error(503, "unavailable").retry_after() > 0, "{answer:?}");
    }
    app.update(&page, json!({"content": "new"})).await.expect_error(503, "unavailable");
    renderer.refuse(None);
    assert_eq!(app.page(&page.slug).await, before);
    assert_eq!(app.store.calls().inserts, 1);
}
