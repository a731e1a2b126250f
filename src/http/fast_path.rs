//! Answers reads of pages that are in memory before the router and its layers, which cost more than the answer.
//!
//! A request takes this path only if every layer would pass it on unchanged, and if its page is ready, or small and read
//! without waiting. A call of a tool takes it if the tools have its result ready. Anything else, whatever the reason, is
//! passed to the router, which alone decides what is refused and how. So this module has no rule of its own: it leaves
//! things out, and adds what the layers would add.
//! `tests/it/controlled/fast_path.rs` sends the same requests both ways and compares the answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, LINK, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Body as _;

use super::middleware::forwarded_warning::ForwardedWarning;
use super::middleware::request_checks::is_too_large;
use super::middleware::security_headers::set_security_headers;
use super::pages::JSON_VIEW;
use super::site::{HTML_VIEW, MARKDOWN_VIEW, NEGOTIATED_MARKDOWN_VIEW, prefers_markdown};
use super::state::Http;
use super::views::{self, Representation};
use crate::api::metadata;
use crate::domain::slug::Slug;
use crate::server::{AnswerRoom, ReadyAnswers, answer_at_once};
use crate::telemetry::http::ReadyReads;

/// The route of the JSON, as it is named in metrics.
const JSON_ROUTE: &str = "/api/pages/{slug}";

/// The route of HTML and Markdown.
const PAGE_ROUTE: &str = "/{slug}";

/// Answers a call of a tool, which has this head and body, if the result is ready. The last argument says whether there
/// is memory for a response of so many bytes.
pub type ReadyCalls = Arc<dyn Fn(&Parts, &[u8], &dyn Fn(u64) -> bool) -> Option<Response> + Send + Sync>;

/// This path, with all that it needs.
pub(super) struct FastPath {
    pub(super) calls: ReadyCalls,
    pub(super) http: Arc<Http>,
    pub(super) warning: Arc<ForwardedWarning>,
    pub(super) reads: ReadyReads,
    /// The `Link` of the API.
    pub(super) service_desc: HeaderValue,
}

/// Answers `request` at once if it can be, as a listener does, or passes it on.
pub(super) async fn answer_if_ready(State(path): State<Arc<FastPath>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let answer =
        if body.is_end_stream() { path.to_head(&head).ok_or(body) } else { answer_at_once(&*path, &head, body) };
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

    fn to_body(&self, head: &Parts, body: &[u8]) -> Option<Response> {
        caught(|| self.call(head, body))
    }
}

/// The result of `answer`; `None` if it panics, so that the router answers and counts the failure.
fn caught(answer: impl FnOnce() -> Option<Response>) -> Option<Response> {
    catch_unwind(AssertUnwindSafe(answer)).ok()?
}

impl FastPath {
    /// The answer to a read.
    fn read(&self, head: &Parts) -> Option<Response> {
        let headers = &head.headers;
        let method = match head.method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            _ => return None,
        };
        let (route, slug, representation) = wanted(head.uri.path(), headers)?;
        let slug = Slug::parse(slug).ok()?;
        if !self.is_plain(head) {
            return None;
        }
        let read = self.reads.begin()?;
        // Nothing is made if there is no memory for any answer.
        if !has_room(head, 0) {
            return None;
        }
        let ready = self.http.service.ready(&slug);
        let is_hit = ready.is_some();
        let page = ready.or_else(|| self.http.service.read_now(&slug))?;
        let mut response = views::respond(&page, &self.http, headers, representation);
        if !has_room(head, response.body().size_hint().lower()) {
            return None;
        }
        if is_hit {
            page.count_hit();
        }
        if route == JSON_ROUTE {
            response.headers_mut().append(LINK, self.service_desc.clone());
        }
        self.reads.answered(&read, method, route, &mut response);
        Some(response)
    }

    /// The answer to a call of a tool.
    fn call(&self, head: &Parts, body: &[u8]) -> Option<Response> {
        let read = self.reads.begin()?;
        let mut response = (self.calls)(head, body, &|bytes| has_room(head, bytes))?;
        set_security_headers(response.headers_mut());
        self.reads.answered(&read, "POST", metadata::path::MCP, &mut response);
        Some(response)
    }

    /// Whether each layer would pass on a request with this head.
    fn is_plain(&self, head: &Parts) -> bool {
        let headers = &head.headers;
        headers.get_all(HOST).iter().count() == 1
            && !headers.contains_key(TRANSFER_ENCODING)
            && !is_too_large(&head.uri, headers)
            && self.warning.untrusted_sender(&head.extensions, headers).is_none()
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
