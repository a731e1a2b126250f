//! Single calls to the service, each over a connection of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use handbill_test_support::connection::{CLIENT_TIMEOUT, connect, exchange};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{Method, Request};
use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Null if the body is not JSON.
    pub(crate) body: Value,
    pub(crate) retry_after: Option<u64>,
    pub(crate) took: Duration,
}

impl Reply {
    #[track_caller]
    pub(crate) fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn text(&self, field: &str) -> &str {
        self.body[field].as_str().unwrap_or_else(|| panic!("no {field} in {self:?}"))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) slug: String,
    pub(crate) key: String,
}

pub(crate) async fn publish(service: SocketAddr) -> Published {
    let reply = create(service).await.expect_status(201);
    Published { slug: reply.text("slug").to_owned(), key: reply.text("edit_key").to_owned() }
}

pub(crate) async fn create(service: SocketAddr) -> Reply {
    let body = json!({"title": "A page", "content": "first"});
    call(service, Method::POST, "/api/pages", None, Some(&body)).await
}

/// Publishes a page with a key that the client made, or finds it.
pub(crate) async fn create_with(service: SocketAddr, edit_key: &str) -> Reply {
    let body = json!({"title": "A page", "content": "first", "edit_key": edit_key});
    call(service, Method::POST, "/api/pages", None, Some(&body)).await
}

pub(crate) async fn read(service: SocketAddr, page: &Published) -> Reply {
    about(service, Method::GET, page, None).await
}

pub(crate) async fn rewrite(service: SocketAddr, page: &Published, content: &str) -> Reply {
    about(service, Method::PATCH, page, Some(&json!({"content": content}))).await
}

pub(crate) async fn delete(service: SocketAddr, page: &Published) -> Reply {
    about(service, Method::DELETE, page, None).await
}

async fn about(service: SocketAddr, method: Method, page: &Published, body: Option<&Value>) -> Reply {
    let path = format!("/api/pages/{}", page.slug);
    call(service, method, &path, Some(&page.key), body).await
}

async fn call(service: SocketAddr, method: Method, path: &str, key: Option<&str>, body: Option<&Value>) -> Reply {
    let mut request = Request::builder().method(method).uri(path).header(HOST, service.to_string());
    if let Some(key) = key {
        request = request.header(AUTHORIZATION, format!("Bearer {key}"));
    }
    let body = body.map(ToString::to_string);
    if body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    let request = request.body(Bytes::from(body.unwrap_or_default())).expect("it is valid");
    let began = Instant::now();
    let whole = async { exchange(&mut connect(service).await?, request).await };
    let response = tokio::time::timeout(CLIENT_TIMEOUT, whole).await.expect("it is answered").expect("it is answered");
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = serde_json::from_slice(response.body()).unwrap_or_default();
    Reply { status: response.status().as_u16(), body, retry_after, took: began.elapsed() }
}
