//! Reads of a page, in each of its forms: JSON, HTML, and Markdown at two addresses.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::VARY;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::percent_decode_str;

use super::coding::Coding;
use super::error::{service_error_response, unless_key_shown};
use super::etag::entity_tag;
use super::extract::SlugParam;
use super::pages::{self, JSON};
use super::representation::{Representation, unchanged};
use super::site::{self, HTML, MARKDOWN, Source, before_punctuation, prefers_markdown, redirect_to};
use super::state::Http;
use crate::api::answer::{Answer, later, now};
use crate::api::types::{Included, Nesting, PageBody};
use handbill_core::domain::page::PageHead;
use handbill_core::domain::slug::Slug;
use handbill_core::service::{PageRead, Reading, ServiceError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Html,
    /// The source, at an address of its own or at that of the HTML.
    Markdown(Source),
}

/// The forms of one version of a page, as far as they were asked for.
#[derive(Default)]
struct Representations {
    json: OnceLock<Representation>,
    html: OnceLock<Representation>,
    markdown: OnceLock<Representation>,
    negotiated_markdown: OnceLock<Representation>,
}

pub(super) struct Read {
    pub(super) form: Form,
    slug: Slug,
}

impl Read {
    /// The read that a request with this head is; `None` if it is anything else, or names no page.
    pub(super) fn of(head: &Parts) -> Option<Self> {
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return None;
        }
        let path = head.uri.path();
        let (name, is_api) = match path.strip_prefix("/api/pages/") {
            Some(name) => (name, true),
            None => (path.strip_prefix('/')?, false),
        };
        // A slash that is encoded is part of a name, and no slug has one.
        let name = if name.contains('%') { percent_decode_str(name).decode_utf8().ok()? } else { Cow::Borrowed(name) };
        let (form, slug) = if is_api { (Form::Json, &*name) } else { Form::named(&name, &head.headers) };
        Slug::parse(slug).ok().map(|slug| Self { form, slug })
    }

    /// Answers a request with this `head`: at once if the page is in memory.
    pub(super) fn answer(self, http: &Arc<Http>, head: Parts) -> Answer<Response> {
        let Self { form, slug } = self;
        if let Some(page) = http.service.read_now(&slug) {
            return now(form.respond(page.map(Reading::Page), http, &head));
        }
        let http = Arc::clone(http);
        later(async move {
            let unchanged = |page: &PageHead| form.unchanged(page, &http, &head.headers);
            let reading = http.service.read_unless(&slug, unchanged).await;
            form.respond(reading, &http, &head)
        })
    }
}

/// `GET /{name}` for a name that is no slug. A request with a slug is answered before the router.
pub(super) async fn absent(State(http): State<Arc<Http>>, SlugParam(name): SlugParam, headers: HeaderMap) -> Response {
    match before_punctuation(&name) {
        Some(address) => redirect_to(&http, address),
        None => Form::named(&name, &headers).0.error(&ServiceError::NotFound, &http, &headers),
    }
}

impl Form {
    /// The form and the slug that the address `/<name>` stands for, in a request with these headers.
    fn named<'a>(name: &'a str, headers: &HeaderMap) -> (Self, &'a str) {
        match name.strip_suffix(".md") {
            Some(slug) => (Self::Markdown(Source::OwnAddress), slug),
            None if prefers_markdown(headers) => (Self::Markdown(Source::Negotiated), name),
            None => (Self::Html, name),
        }
    }

    fn respond(self, reading: Result<Reading<Response>, ServiceError>, http: &Http, head: &Parts) -> Response {
        let headers = &head.headers;
        let response = match reading {
            Ok(Reading::Unchanged(response)) => response,
            // The JSON of a large page is written while it is sent.
            Ok(Reading::Page(page)) if self == Self::Json && !page.is_kept() => {
                self.unchanged(&page.head, http, headers).unwrap_or_else(|| {
                    (pages::read_fields(&page.head, http), pages::page_body(&page.share(), http)).into_response()
                })
            }
            Ok(Reading::Page(page)) => self.show(&page, http, headers),
            Err(error) => return self.error(&error, http, headers),
        };
        unless_key_shown(&head.uri, http, response)
    }

    /// The response that shows `page`, made if nobody asked for this form yet.
    fn show(self, page: &PageRead, http: &Http, headers: &HeaderMap) -> Response {
        let all = page.made();
        let mut made_bytes = None;
        let representation = self.slot(all).get_or_init(|| {
            let representation = self.make(all, page, http);
            made_bytes = Some(representation.bytes());
            representation
        });
        if let Some(bytes) = made_bytes {
            page.grew(bytes);
        }
        let (response, missing) = representation.respond_to(headers);
        // The client prefers a coding that was not made yet, so it is made for later requests.
        if let Some(coding) = missing
            && let Some(page) = page.share_kept()
        {
            let representation = representation.clone();
            http.compressor.begin(move || page.grew(representation.compress(coding)));
        }
        response
    }

    fn error(self, error: &ServiceError, http: &Http, headers: &HeaderMap) -> Response {
        let mut response = match self {
            Self::Json => return service_error_response(error, &http.base_url),
            Self::Markdown(_) if !site::prefers_html_errors(headers) => service_error_response(error, &http.base_url),
            Self::Html | Self::Markdown(_) => site::error_page(error, http),
        };
        response.headers_mut().entry(VARY).or_insert(HeaderValue::from_static("Accept"));
        response
    }

    /// The 304 to a request with these headers, if its client holds the page in this form.
    fn unchanged(self, page: &PageHead, http: &Http, headers: &HeaderMap) -> Option<Response> {
        unchanged(headers, |coding| self.tag(coding, page, http), || self.fields(page, http))
    }

    /// The place of this form among those that were made.
    fn slot(self, all: &Representations) -> &OnceLock<Representation> {
        match self {
            Self::Json => &all.json,
            Self::Html => &all.html,
            Self::Markdown(Source::OwnAddress) => &all.markdown,
            Self::Markdown(Source::Negotiated) => &all.negotiated_markdown,
        }
    }

    /// Makes this form of `page`. Both addresses of the Markdown share one body.
    fn make(self, all: &Representations, page: &PageRead, http: &Http) -> Representation {
        let fields = self.fields(&page.head, http);
        if self == Self::Markdown(Source::Negotiated) {
            let own = Self::Markdown(Source::OwnAddress);
            return all.markdown.get_or_init(|| own.make(all, page, http)).with_fields(fields);
        }
        let (content_type, body): (_, Bytes) = match self {
            Self::Json => (JSON, PageBody::json(page.share(), &http.base_url, Included::ALL).to_bytes(Nesting::Json)),
            Self::Html => (HTML, site::html_of(page, http).into()),
            Self::Markdown(_) => (MARKDOWN, page.text.content.as_str().to_owned().into()),
        };
        Representation::new(content_type, fields, body, |coding| self.tag(coding, &page.head, http))
    }

    /// The header fields of the 200 and the 304, without the entity tag and those that describe the body.
    fn fields(self, page: &PageHead, http: &Http) -> HeaderMap {
        match self {
            Self::Json => pages::read_fields(page, http),
            Self::Html => site::html_view_fields(page, http),
            Self::Markdown(source) => site::markdown_fields(http, page, source),
        }
    }

    fn tag(self, coding: Coding, page: &PageHead, http: &Http) -> HeaderValue {
        match self {
            Self::Json => pages::json_tag_in(coding, page, http),
            Self::Html => entity_tag(page, &site::html_representation(http), coding.name()),
            Self::Markdown(_) => entity_tag(page, site::MARKDOWN_REPRESENTATION, coding.name()),
        }
    }
}
