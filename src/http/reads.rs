//! Reads of a page as JSON, HTML, and Markdown at two addresses.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::header::{CACHE_CONTROL, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue};

use super::answer::{FIELDS, json_tag_in};
use super::error_response::{unless_uri_holds_key, uri_holds_key};
use super::etag::{PageFacts, REVALIDATE};
use super::extract::{Asked, SlugParam};
use super::negotiation::{Coding, VARY_CODING};
use super::representation::{Cacheable, Made, Representation, Source, finish, unchanged};
use super::site::{self, HTML, MARKDOWN, before_punctuation, prefers_markdown, redirect_to};
use super::{kept_body::KeptBody, page_cache::CachedPage, state::AppState};
use crate::http::types::{Included, JSON, PageBody, Part};
use handbill_pages::service::{Body, ServiceError, is_current};
use handbill_pages::values::{head::PageHead, page::Page, slug::Slug};

struct DescribedPage<'a> {
    representation: Representation,
    slug: &'a Slug,
    page: PageFacts,
    app: &'a AppState,
}

/// `GET /{name}`: HTML or Markdown.
pub(super) async fn page(State(app): State<Arc<AppState>>, SlugParam(name): SlugParam, asked: Asked) -> Response {
    let (representation, slug) = Representation::named(&name, &asked.headers);
    match Slug::parse(slug) {
        Ok(slug) => representation.read(&slug, &app, &asked).await,
        Err(_) => match before_punctuation(&name) {
            Some(address) => redirect_to(&app, address, &asked.uri),
            None => representation.error(&ServiceError::NotFound, &app, &asked.headers),
        },
    }
}

/// A part of the page's text as JSON, which is not cached.
pub(super) async fn part(slug: &Slug, part: Body<Part>, app: &AppState, asked: &Asked) -> Response {
    let answer = async {
        let page = app.service.read(slug).page().await?;
        if uri_holds_key(&asked.uri) {
            return Err(ServiceError::KeyInQuery);
        }
        let representation = Representation::Part(part?);
        let body = representation.body(&page, app);
        let described = DescribedPage { representation, slug, page: app.about(&page.head), app };
        let finished = finish(&asked.headers, &described, |coding| match coding {
            Coding::Identity => Made::Body(&body),
            Coding::Gzip => Made::NotWorth,
        });
        Ok(finished.expect("the body without a coding is there").response)
    };
    answer.await.unwrap_or_else(|error| app.failed(&error))
}

impl Representation {
    fn named<'a>(name: &'a str, headers: &HeaderMap) -> (Self, &'a str) {
        match name.strip_suffix(".md") {
            Some(slug) => (Self::Markdown(Source::OwnAddress), slug),
            None if prefers_markdown(headers) => (Self::Markdown(Source::Negotiated), name),
            None => (Self::Html, name),
        }
    }

    pub(super) async fn read(self, slug: &Slug, app: &AppState, asked: &Asked) -> Response {
        match self.answer(slug, app, &asked.headers).await {
            Ok(response) => unless_uri_holds_key(&asked.uri, app, response),
            Err(error) => {
                if let ServiceError::Gone = error {
                    app.cache.drop_page(slug);
                }
                self.error(&error, app, &asked.headers)
            }
        }
    }

    /// From memory, else by the head alone, else made of the page and kept.
    async fn answer(self, slug: &Slug, app: &AppState, headers: &HeaderMap) -> Result<Response, ServiceError> {
        let AppState { cache, service, .. } = app;
        let (cached, slot) = cache.entry_or_slot(slug);
        let ready = cached.and_then(|cached| Some((cached.page.state, self.ready(&cached, slug, app, headers)?)));
        if cache.is_coherent
            && let Some((_, response)) = ready
        {
            cache.count_hit();
            return Ok(response);
        }
        // In a box of its own: a read from memory need not carry its room through each layer.
        let from_store = async move {
            let mut reading = service.read(slug);
            // Another replica may have changed the page.
            if !cache.is_coherent && (ready.is_some() || headers.contains_key(IF_NONE_MATCH)) {
                let head = reading.head().await?;
                if let Some((state, response)) = ready
                    && state == head.state()
                {
                    cache.count_hit();
                    return Ok(response);
                }
                if let Some(unchanged) = self.unchanged(&head, app, headers) {
                    return Ok(unchanged);
                }
            }
            let page = reading.page().await?;
            let made = CachedPage::new(app.about(&page.head), self, self.body(&page, app));
            let cached = cache.insert(slug, slot, made, Coding::preferred(headers));
            Ok(self.ready(&cached, slug, app, headers).expect("the body without a coding is there"))
        };
        Box::pin(from_store).await
    }

    /// `None` if `cached` has no body that the client takes.
    fn ready(self, cached: &Arc<CachedPage>, slug: &Slug, app: &AppState, headers: &HeaderMap) -> Option<Response> {
        let described = DescribedPage { representation: self, slug, page: cached.page, app };
        let finished = finish(headers, &described, |coding| cached.made(self, coding))?;
        if finished.wants_coding
            && let Made::Body(body) = cached.made(self, Coding::Identity)
        {
            // It is made for later requests.
            let (cache, slug, cached, body) = (app.cache.clone(), slug.clone(), Arc::clone(cached), body.clone());
            app.compressor.begin(move || cache.insert_gzip(&slug, &cached, self, body.gzip()));
        }
        Some(finished.response)
    }

    fn error(self, error: &ServiceError, app: &AppState, headers: &HeaderMap) -> Response {
        let mut response = match self {
            Self::Json | Self::Part(_) => return app.failed(error),
            // A shell has no use for a page of style.
            Self::Html | Self::Markdown(_) if !site::prefers_html_errors(headers) => app.failed(error),
            Self::Html | Self::Markdown(_) => site::error_page(error, app),
        };
        response.headers_mut().entry(VARY).or_insert(HeaderValue::from_static("Accept"));
        response
    }

    /// 304, if the head alone says so.
    fn unchanged(self, head: &PageHead, app: &AppState, headers: &HeaderMap) -> Option<Response> {
        // A page that must be rendered again may have other links than its head says.
        if !is_current(head) {
            return None;
        }
        let described = DescribedPage { representation: self, slug: &head.slug, page: app.about(head), app };
        // Nothing is cached, so the response would be uncompressed, and `*` stands for that.
        unchanged(headers, Coding::preferred(headers), &described, Coding::Identity)
    }

    fn body(self, page: &Page, app: &AppState) -> KeptBody {
        match self {
            Self::Json => PageBody::json(page, &app.base_url, Included::ALL).into(),
            Self::Html => site::html_of(page, app),
            Self::Markdown(source) => site::markdown_of(page, source).into(),
            Self::Part(part) => {
                let included = Included { content: true, html: false, part: Some(part) };
                PageBody::json(page, &app.base_url, included).into()
            }
        }
    }
}

impl Cacheable for DescribedPage<'_> {
    fn content_type(&self) -> HeaderValue {
        match self.representation {
            Representation::Json | Representation::Part(_) => JSON,
            Representation::Html => HTML,
            Representation::Markdown(_) => MARKDOWN,
        }
    }

    fn fields(&self) -> HeaderMap {
        let &Self { slug, app, .. } = self;
        let mut fields = HeaderMap::with_capacity(FIELDS);
        match self.representation {
            Representation::Json => {
                fields.insert(CACHE_CONTROL, REVALIDATE);
                fields.insert(VARY, VARY_CODING);
            }
            Representation::Part(_) => {
                fields.insert(CACHE_CONTROL, REVALIDATE);
            }
            Representation::Html => site::html_fields_of(&mut fields, app, slug),
            Representation::Markdown(source) => site::markdown_fields(&mut fields, app, slug, source),
        }
        self.page.mark_noindex(&mut fields);
        fields
    }

    fn tag(&self, coding: Coding) -> HeaderValue {
        match self.representation {
            Representation::Json => json_tag_in("json.", coding, &self.page, self.app),
            Representation::Part(Part { offset, max_chars }) => {
                json_tag_in(&format!("part.{offset}.{max_chars}."), coding, &self.page, self.app)
            }
            Representation::Html => site::html_tag(coding, &self.page, self.app),
            Representation::Markdown(source) => site::markdown_tag(coding, &self.page, source),
        }
    }
}
