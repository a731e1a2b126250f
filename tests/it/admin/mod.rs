//! The operators' API (contract, decision 17): a service and its operators' routes over one store, in this process.

mod archives;
mod contact;
mod creates;
mod hiding;
mod takedown;

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use handbill::admin::api::AdminApi;
use handbill::admin::router;
use handbill::app::Deps;
use handbill::telemetry::logs::AuditLog;
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::random::Random;
use handbill_pages::service::{CallMetrics, Importer, Moderation, PublishingPolicy, SharedStore};
use handbill_store_sqlite::SqliteStore;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::in_process::app::{Published, Setup, TestApp};

#[derive(Clone)]
struct Operated {
    app: TestApp,
    routes: Router,
}

#[derive(Debug)]
struct OperatorsAnswer {
    status: u16,
    text: String,
}

impl OperatorsAnswer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// The operators' routes over the pages of `app`, with the switch and the journal of `store`.
fn routes(app: &TestApp, store: Arc<SqliteStore>, policy: PublishingPolicy) -> Router {
    let (clock, metrics) = (Arc::clone(&app.clock) as SharedClock, Arc::clone(&app.metrics));
    let pages = SharedStore::new(Arc::clone(&app.store) as _, CallMetrics::default(), Arc::clone(&clock));
    router(Arc::new(AdminApi {
        operators: Moderation::new(pages.clone(), clock, Random::System),
        importer: Importer::new(pages, Deps::system().renderer),
        store,
        policy,
        metrics,
        audit: AuditLog::default(),
        acts: TaskTracker::new(),
    }))
}

impl Operated {
    fn start() -> Self {
        Self::over(SqliteStore::temporary().unwrap())
    }

    async fn with_page() -> (Self, Published) {
        let operated = Self::start();
        let page = operated.app.published().await;
        (operated, page)
    }

    fn on(data_dir: &Path) -> Self {
        Self::over(SqliteStore::open(data_dir, false).unwrap())
    }

    fn over(store: SqliteStore) -> Self {
        let store = Arc::new(store);
        let policy = PublishingPolicy::default();
        let setup = Setup::unlimited().policy(policy.clone());
        let app = setup.over(Arc::clone(&store) as Arc<dyn PageStore>).start();
        let routes = routes(&app, store, policy);
        Self { app, routes }
    }

    /// Another process on the same store.
    fn another(&self) -> Self {
        let store = Arc::new(SqliteStore::temporary().unwrap());
        Self { app: self.app.clone(), routes: routes(&self.app, store, PublishingPolicy::default()) }
    }

    async fn ask(&self, method: &str, path: &str, body: impl ToString) -> OperatorsAnswer {
        let request = Request::builder().method(method).uri(path).body(Body::from(body.to_string())).unwrap();
        let Ok(response) = self.routes.clone().oneshot(request).await;
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        OperatorsAnswer { status: head.status.as_u16(), text }
    }

    async fn inspect(&self, page: &str) -> Value {
        self.ask("POST", "/inspect", json!({"page": page})).await.expect(200).json()
    }

    async fn pause(&self, paused: bool) {
        self.ask("POST", "/creates", json!({"paused": paused, "by": "desk"})).await.expect(200);
    }

    async fn results(&self, path: &str, body: Value) -> Vec<Value> {
        self.ask("POST", path, body).await.expect(200).json().as_array().unwrap().clone()
    }

    async fn take_down(&self, pages: &[&str]) -> Vec<String> {
        let results =
            self.results("/takedown", json!({"pages": pages, "reason": "phishing", "by": "abuse desk"})).await;
        results.iter().map(|result| result["outcome"].as_str().unwrap().to_owned()).collect()
    }
}
