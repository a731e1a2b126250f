//! The operators' API (contract, decision 17): a service and its operators' routes over one store, in this process.

mod contact;
mod creates;
mod exports;
mod guard;
mod hiding;
mod hosts;
mod takedown;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use handbill::operators::api::{self, Guard, OperatorsApi, TokenFile};
use handbill::telemetry::logs::LogQueue;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::page_store::PageStore;
use handbill_core::ports::random::Random;
use handbill_core::service::{Operators, PublishingPolicy};
use handbill_store_sqlite::{SqliteStore, StoreMemory};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tower::ServiceExt;

use crate::in_process::app::{Setup, TestApp};

/// Taken by tests that listen to the log: one of them changes what the process makes of all events meanwhile.
static LISTENING: Mutex<()> = Mutex::const_new(());

/// The token of the operators under test.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A service with its operators' routes.
struct Operated {
    app: TestApp,
    routes: Router,
    token_file: PathBuf,
    _directory: TempDir,
}

/// An answer of the operators' routes.
#[derive(Debug)]
struct OperatorsAnswer {
    status: u16,
    headers: HeaderMap,
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

impl Operated {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token_file = directory.path().join("token");
        fs::write(&token_file, format!("{TOKEN}\n")).unwrap();
        Self::with(TokenFile::new(Some(token_file.clone())), token_file, directory)
    }

    /// A service whose operators have no token.
    fn closed() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::with(TokenFile::new(None), directory.path().join("token"), directory)
    }

    /// A service on the store in `data_dir`.
    fn on(data_dir: &Path) -> Self {
        let store = SqliteStore::open(data_dir, false, StoreMemory::default()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let token_file = directory.path().join("token");
        fs::write(&token_file, TOKEN).unwrap();
        Self::over(store, TokenFile::new(Some(token_file.clone())), token_file, directory)
    }

    fn with(token: TokenFile, token_file: PathBuf, directory: TempDir) -> Self {
        Self::over(SqliteStore::temporary().unwrap(), token, token_file, directory)
    }

    fn over(store: SqliteStore, token: TokenFile, token_file: PathBuf, directory: TempDir) -> Self {
        let store = Arc::new(store);
        let policy = PublishingPolicy::default();
        let setup = Setup::unlimited().policy(policy.clone());
        let app = setup.over(Arc::clone(&store) as Arc<dyn PageStore>).start();
        let (clock, metrics) = (Arc::clone(&app.clock) as SharedClock, Arc::clone(&app.metrics));
        let pages = Arc::clone(&app.store) as Arc<dyn PageStore>;
        let parts = OperatorsApi {
            operators: Operators::new(pages, Arc::clone(&clock), Random::System),
            records: Arc::clone(&store) as _,
            switch: Arc::clone(&store) as _,
            sqlite: Some(store),
            clock: Arc::clone(&clock),
            policy,
            log: LogQueue::to_stderr().unwrap(),
            metrics: Arc::clone(&metrics),
        };
        let routes = api::router(parts, Guard::new(token, metrics, clock), Handle::current());
        Self { app, routes, token_file, _directory: directory }
    }

    async fn send(&self, request: Request<Body>) -> OperatorsAnswer {
        let Ok(response) = self.routes.clone().oneshot(request).await;
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        OperatorsAnswer { status: head.status.as_u16(), headers: head.headers, text }
    }

    /// Sends a request with the token.
    async fn ask(&self, method: &str, path: &str, body: impl ToString) -> OperatorsAnswer {
        self.send(request(method, path, Some(TOKEN), body)).await
    }

    /// Takes pages down, and returns the outcome of each.
    async fn take_down(&self, slugs: &[&str]) -> Vec<String> {
        let body = json!({"slugs": slugs, "reason": "phishing", "by": "abuse desk"});
        let answer = self.ask("POST", "/takedown", body).await.expect(200).json();
        let results = answer["results"].as_array().unwrap();
        results.iter().map(|result| result["outcome"].as_str().unwrap().to_owned()).collect()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a body is a literal, or JSON made for the call")]
fn request(method: &str, path: &str, token: Option<&str>, body: impl ToString) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(body.to_string().into()).unwrap()
}
