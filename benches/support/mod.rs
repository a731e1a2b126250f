//! The service under measurement: its whole router, over a store in memory, in this process.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use handbill::app::{Deps, PublicSettings, public};
use handbill_pages::ports::rate_limiter::Quotas;
use handbill_pages::service::RenderInPlace;
use handbill_pages::values::client::Peer;
use handbill_pages::values::origin::Origin;
use handbill_pages::values::quota::Quota;
use handbill_store_sqlite::SqliteStore;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Collected};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

/// A document with everything that a page may have, about 6 KB.
pub(crate) const MIXED: &str = include_str!("../documents/mixed.md");

const HOST: &str = "pages.example";

pub(crate) struct Service {
    /// Dropped before the runtime, which waits for the task that waits for this.
    _time_stands: mpsc::Sender<()>,
    runtime: Runtime,
    front: Router,
    page: Value,
    etag: String,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    body: Collected<Bytes>,
}

impl Service {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        // The runtime's time stands still, so that no request reaches its deadline under Valgrind. Tokio would move it whenever all
        // tasks wait, but not while blocking work goes on.
        let (time_stands, ends) = mpsc::channel::<()>();
        drop(runtime.spawn_blocking(move || ends.recv()));
        let base_url = Origin::parse(&format!("https://{HOST}")).unwrap();
        let quota = Some(Quota { limit: u32::MAX, window: Duration::from_secs(1) });
        let quotas = Quotas { create: quota, edit: quota, token: quota };
        let settings = PublicSettings { quotas, ..PublicSettings::open(base_url) };
        let deps = Deps { renderer: Arc::new(RenderInPlace), ..Deps::system() };
        let front = public(Arc::new(SqliteStore::temporary().unwrap()), settings, &deps);
        let mut service = Self { _time_stands: time_stands, runtime, front, page: Value::Null, etag: String::new() };
        let created = service.answer(&create("A mixed document", MIXED));
        assert_eq!(created.status, StatusCode::CREATED, "{:?}", created.body);
        service.page = serde_json::from_slice(&created.body.to_bytes()).unwrap();
        let read = service.answer(&service.read_json());
        read.headers["etag"].to_str().unwrap().clone_into(&mut service.etag);
        service
    }

    /// The answer, read to its end: in pieces, as hyper sends them.
    pub(crate) fn answer(&self, request: &Request<Bytes>) -> Answer {
        let request = request.clone().map(Body::from);
        self.runtime.block_on(async {
            let Ok(response) = self.front.clone().oneshot(request).await;
            let (parts, body) = response.into_parts();
            Answer { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap() }
        })
    }

    fn slug(&self) -> &str {
        self.page["slug"].as_str().unwrap()
    }

    pub(crate) fn read_json(&self) -> Request<Bytes> {
        get(&format!("/api/pages/{}", self.slug()), &[])
    }

    pub(crate) fn read_html(&self) -> Request<Bytes> {
        get(&format!("/{}", self.slug()), &[("accept", "text/html,application/xhtml+xml,*/*;q=0.8")])
    }

    pub(crate) fn read_markdown(&self) -> Request<Bytes> {
        get(&format!("/{}.md", self.slug()), &[])
    }

    pub(crate) fn revalidate(&self) -> Request<Bytes> {
        get(&format!("/api/pages/{}", self.slug()), &[("if-none-match", &self.etag)])
    }

    pub(crate) fn read_by_mcp(&self) -> Request<Bytes> {
        let revision = "2026-07-28";
        let message = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "get_page",
                "arguments": {"slug": self.slug()},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": revision,
                    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", revision),
            ("mcp-method", "tools/call"),
            ("mcp-name", "get_page"),
        ];
        request("POST", "/mcp", &headers, message.to_string())
    }
}

/// A create of a page of 2 KB, the beginning of [`MIXED`].
pub(crate) fn create_2_kb() -> Request<Bytes> {
    create("A page to be measured", &MIXED[..MIXED.floor_char_boundary(2048)])
}

fn create(title: &str, content: &str) -> Request<Bytes> {
    let body = json!({"title": title, "content": content});
    request("POST", "/api/pages", &[("content-type", "application/json")], body.to_string())
}

fn get(target: &str, headers: &[(&str, &str)]) -> Request<Bytes> {
    request("GET", target, headers, "")
}

fn request(method: &str, target: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request<Bytes> {
    let peer = Peer(SocketAddr::new(IpAddr::from([192, 0, 2, 1]), 40_000));
    let mut request = Request::builder().method(method).uri(target).header("host", HOST).extension(peer);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).unwrap()
}
