//! Answers reads of pages before the router and its layers, which cost more than the answer.
//!
//! A request takes this path only if every layer would pass it on unchanged. If its page is ready, or small and read
//! without waiting, it is answered at once. Otherwise the route's handler answers it, which asks the store. An answer that
//! layers would change, as they do with every error, goes to the router with its request, and the router's layers complete
//! it. A call of a tool takes this path if the tools have its result ready. Anything else, whatever the reason, is passed
//! to the router, which alone decides what is refused and how. So this module has no rule of its own: it leaves things
//! out, and adds what the layers would add.
//! `tests/it/controlled/fast_path.rs` sends the same requests both ways and compares the answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_LENGTH, EXPECT, LINK};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Body as _;

use super::error::{internal_error, shows_key};
use super::middleware::cors::set_cors_headers;
use super::middleware::forwarded_warning::ForwardedWarning;
use super::middleware::request_checks::is_too_large;
use super::middleware::security_headers::set_security_headers;
use super::pages::{self, JSON_VIEW};
use super::prepared::Prepared;
use super::site::{self, HTML_VIEW, MARKDOWN_VIEW, NEGOTIATED_MARKDOWN_VIEW, prefers_markdown};
use super::state::Http;
use super::views::{self, Representation};
use crate::api::metadata;
use crate::domain::slug::Slug;
use crate::server::{AnswerRoom, ReadyAnswers, answer_soon};
use crate::telemetry::http::{ReadBegan, ReadyReads};

/// The route of the JSON, as it is named in metrics.
const JSON_ROUTE: &str = "/api/pages/{slug}";

/// The route of HTML and Markdown.
const PAGE_ROUTE: &str = "/{slug}";

/// Answers a call of a tool, which has this head and body, if the result is ready. The last argument says whether there
/// is memory for a response of so many bytes.
pub type ReadyCalls = Arc<dyn Fn(&mut Parts, &[u8], fn(&Parts, u64) -> bool) -> Option<Response> + Send + Sync>;

/// A read of a page.
struct Read {
    method: &'static str,
    route: &'static str,
    slug: Slug,
    representation: Representation,
}

/// This path, with all that it needs.
pub(super) struct FastPath {
    pub(super) calls: ReadyCalls,
    pub(super) http: Arc<Http>,
    pub(super) warning: Arc<ForwardedWarning>,
    pub(super) reads: ReadyReads,
    /// The `Link` of the API.
    pub(super) service_desc: HeaderValue,
}

/// Answers `request` before the router if it can be, as a listener does, or passes it on.
pub(super) async fn answer_if_ready(State(path): State<Arc<FastPath>>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let ready = if body.is_end_stream() { path.to_head(&head) } else { None };
    let answer = match ready {
        Some(response) => Ok(response),
        None => answer_soon(&*path, &mut head, body).await,
    };
    match answer {
        Ok(response) => as_sent(&head.method, response),
        Err(body) => next.run(Request::from_parts(head, body)).await,
    }
}

/// `response` with the length of its body, and without the body if `method` is `HEAD`. A listener does this itself.
fn as_sent(method: &Method, mut response: Response) -> Response {
    if response.status() != StatusCode::NOT_MODIFIED
        && let Some(length) = response.body().size_hint().exact()
    {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    if method == Method::HEAD { response.map(|_| Body::empty()) } else { response }
}

impl ReadyAnswers for FastPath {
    fn to_head(&self, head: &Parts) -> Option<Response> {
        caught(|| self.read(head))
    }

    fn may_answer_body(&self, head: &Parts) -> bool {
        // A client that expects `100 Continue` must not get it before the router decides to read the body.
        head.method == Method::POST
            && head.uri.path() == metadata::path::MCP
            && !head.headers.contains_key(EXPECT)
            && self.is_plain(head)
    }

    fn to_body(&self, head: &mut Parts, body: &[u8]) -> Option<Response> {
        caught(|| self.call(head, body))
    }

    fn to_head_later<'a>(&'a self, head: &'a mut Parts) -> Option<BoxFuture<'a, Option<Response>>> {
        let (read, began) = caught(|| {
            let (read, began) = (self.plain_read(head)?, self.reads.begin()?);
            // The store is not asked if there is no memory for any answer.
            has_room(head, 0).then_some((read, began))
        })?;
        Some(self.ask(head, read, began).boxed())
    }
}

/// The result of `work`; `None` if it panics, so that the router answers and counts the failure.
fn caught<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()?
}

impl FastPath {
    /// The read that a request with this head is, if each layer would pass it on.
    fn plain_read(&self, head: &Parts) -> Option<Read> {
        let method = match head.method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            _ => return None,
        };
        let (route, slug, representation) = wanted(head.uri.path(), &head.headers)?;
        let slug = Slug::parse(slug).ok()?;
        (!shows_key(&head.uri) && self.is_plain(head)).then_some(Read { method, route, slug, representation })
    }

    /// The answer to a read that needs nobody else.
    fn read(&self, head: &Parts) -> Option<Response> {
        let Read { method, route, slug, representation } = self.plain_read(head)?;
        let began = self.reads.begin()?;
        // Nothing is made if there is no memory for any answer.
        if !has_room(head, 0) {
            return None;
        }
        let ready = self.http.service.ready(&slug);
        let is_hit = ready.is_some();
        let page = ready.or_else(|| self.http.service.read_now(&slug))?;
        let mut response = views::respond(&page, &self.http, &head.headers, representation);
        if !has_room(head, response.body().size_hint().lower()) {
            return None;
        }
        if is_hit {
            page.count_hit();
        }
        self.add_link(route, &mut response);
        self.reads.answered(began, method, route, &mut response);
        Some(response)
    }

    /// The answer to a read that the route's handler has made. If layers would change it, it is left to them.
    async fn ask(&self, head: &mut Parts, read: Read, began: ReadBegan) -> Option<Response> {
        let Read { method, route, .. } = read;
        let in_flight = self.reads.in_flight(began, method, route);
        let asking = async {
            let name = head.uri.path().rsplit('/').next().unwrap_or_default();
            match route {
                JSON_ROUTE => pages::json(&self.http, name, &head.headers).await,
                _ => site::html_or_markdown(&self.http, name, &head.headers).await,
            }
        };
        let answering = AssertUnwindSafe(asking).catch_unwind().map(|answer| answer.unwrap_or_else(internal_error));
        let mut response = in_flight.run(answering).await;
        let is_page = matches!(response.status(), StatusCode::OK | StatusCode::NOT_MODIFIED);
        if !is_page || !has_room(head, response.body().size_hint().lower()) {
            Prepared::put(&mut head.extensions, response);
            in_flight.pass_on(&mut head.extensions);
            return None;
        }
        set_security_headers(response.headers_mut());
        set_cors_headers(response.headers_mut());
        self.add_link(route, &mut response);
        in_flight.answered(&mut response);
        Some(response)
    }

    /// Adds the `Link` of the API to `response`, if `route` is of the API.
    fn add_link(&self, route: &str, response: &mut Response) {
        if route == JSON_ROUTE {
            response.headers_mut().append(LINK, self.service_desc.clone());
        }
    }

    /// The answer to a call of a tool.
    fn call(&self, head: &mut Parts, body: &[u8]) -> Option<Response> {
        let began = self.reads.begin()?;
        let mut response = (self.calls)(head, body, has_room)?;
        set_security_headers(response.headers_mut());
        self.reads.answered(began, "POST", metadata::path::MCP, &mut response);
        Some(response)
    }

    /// Whether each layer would pass on a request with this head.
    fn is_plain(&self, head: &Parts) -> bool {
        let headers = &head.headers;
        !is_too_large(&head.uri, headers) && self.warning.untrusted_sender(&head.extensions, headers).is_none()
    }
}

/// Reserves memory for a response with `bytes` in its body. Returns false if there is none. Without a listener there is no
/// limit.
fn has_room(head: &Parts, bytes: u64) -> bool {
    let Some(room) = head.extensions.get::<AnswerRoom>() else { return true };
    room.ask().is_ok() && (bytes == 0 || room.take(bytes).is_ok())
}

/// The route, the slug and the representation that `path` asks for.
fn wanted<'a>(path: &'a str, headers: &HeaderMap) -> Option<(&'static str, &'a str, Representation)> {
    if let Some(slug) = path.strip_prefix("/api/pages/") {
        return Some((JSON_ROUTE, slug, JSON_VIEW));
    }
    let name = path.strip_prefix('/')?;
    Some(match name.strip_suffix(".md") {
        Some(slug) => (PAGE_ROUTE, slug, MARKDOWN_VIEW),
        None if prefers_markdown(headers) => (PAGE_ROUTE, name, NEGOTIATED_MARKDOWN_VIEW),
        None => (PAGE_ROUTE, name, HTML_VIEW),
    })
}
