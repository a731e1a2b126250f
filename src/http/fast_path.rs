//! Answers reads of pages that are ready before the router and its layers, which cost more than the answer.
//!
//! A request takes this path only if every layer would pass it on unchanged, and if its page is ready in the
//! representation that it asks for. Anything else, whatever the reason, is passed to the router, which alone decides what
//! is refused and how. So this module has no rule of its own: it leaves things out, and adds what the layers would add.
//! `tests/it/controlled/fast_path.rs` sends the same requests both ways and compares the answers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CONTENT_LENGTH, HOST, LINK, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Body as _;

use super::middleware::forwarded_warning::ForwardedWarning;
use super::middleware::request_checks::is_too_large;
use super::site::prefers_markdown;
use super::state::Http;
use super::views::{Slot, Views, respond_if_ready};
use crate::domain::slug::Slug;
use crate::server::AnswerRoom;
use crate::telemetry::http::ReadyReads;

/// The route of the JSON, as it is named in metrics.
const JSON_ROUTE: &str = "/api/pages/{slug}";

/// The route of HTML and Markdown.
const PAGE_ROUTE: &str = "/{slug}";

/// This path, with all that it needs.
pub(super) struct FastPath {
    pub(super) http: Arc<Http>,
    pub(super) warning: Arc<ForwardedWarning>,
    pub(super) reads: ReadyReads,
    /// The `Link` of the API.
    pub(super) service_desc: HeaderValue,
}

/// Answers `request` if its page is ready, or passes it on.
pub(super) async fn answer_if_ready(State(path): State<Arc<FastPath>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match path.answer(&head) {
        Some(response) => as_sent(&head.method, response),
        None => next.run(Request::from_parts(head, body)).await,
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

impl FastPath {
    /// The answer to a request with this head and without a body, if its page is ready.
    pub(super) fn answer(&self, head: &Parts) -> Option<Response> {
        let headers = &head.headers;
        let method = match head.method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            _ => return None,
        };
        let (route, slug, slot) = wanted(head.uri.path(), headers)?;
        let slug = Slug::parse(slug).ok()?;
        let is_plain = headers.get_all(HOST).iter().count() == 1
            && !headers.contains_key(TRANSFER_ENCODING)
            && !is_too_large(&head.uri, headers)
            && self.warning.untrusted_sender(&head.extensions, headers).is_none();
        if !is_plain {
            return None;
        }
        let read = self.reads.begin()?;
        let page = self.http.service.ready(&slug)?;
        let mut response = respond_if_ready(&page, &self.http.compressor, headers, slot)?;
        if let Some(room) = head.extensions.get::<AnswerRoom>() {
            room.ask().ok()?;
            room.take(response.body().size_hint().lower()).ok()?;
        }
        page.count_hit();
        if route == JSON_ROUTE {
            response.headers_mut().append(LINK, self.service_desc.clone());
        }
        self.reads.answered(&read, method, route, &mut response);
        Some(response)
    }
}

/// The route, the slug and the representation that `path` asks for.
fn wanted<'a>(path: &'a str, headers: &HeaderMap) -> Option<(&'static str, &'a str, Slot)> {
    if let Some(slug) = path.strip_prefix("/api/pages/") {
        return Some((JSON_ROUTE, slug, |views: &Views| &views.json));
    }
    let name = path.strip_prefix('/')?;
    Some(match name.strip_suffix(".md") {
        Some(slug) => (PAGE_ROUTE, slug, |views: &Views| &views.markdown),
        None if prefers_markdown(headers) => (PAGE_ROUTE, name, |views: &Views| &views.negotiated_markdown),
        None => (PAGE_ROUTE, name, |views: &Views| &views.html),
    })
}
