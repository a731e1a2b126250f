//! Reads of a page as JSON, HTML, and Markdown at two addresses.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::header::{CACHE_CONTROL, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue};

use super::answer::{FIELDS, JSON, json_tag_in};
use super::error_response::{shows_key, unless_key_shown};
use super::etag::REVALIDATE;
use super::extract::{Asked, SlugParam};
use super::negotiation::{Coding, VARY_CODING, gzip};
use super::representation::{Cacheable, respond, unchanged};
use super::site::{self, HTML, MARKDOWN, Source, before_punctuation, prefers_markdown, redirect_to};
use super::state::{AppState, PageMetadata};
use crate::http::types::{Included, PageBody, Part};
use handbill_pages::service::{Body, CachedPage, FormNumber, PageRead, ServiceError};
use handbill_pages::values::head::PageHead;
use handbill_pages::values::slug::Slug;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageForm {
    Json,
    Html,
    Markdown(Source),
}

struct DescribedPart<'a> {
    page: PageMetadata<'a>,
    part: Part,
    app: &'a AppState,
}

struct DescribedPage<'a> {
    form: PageForm,
    page: PageMetadata<'a>,
    app: &'a AppState,
}

/// `GET /{name}`: HTML or Markdown.
pub(super) async fn page(State(app): State<Arc<AppState>>, SlugParam(name): SlugParam, asked: Asked) -> Response {
    let (form, slug) = PageForm::named(&name, &asked.headers);
    match Slug::parse(slug) {
        Ok(slug) => form.read(&slug, &app, &asked).await,
        Err(_) => match before_punctuation(&name) {
            Some(address) => redirect_to(&app, address),
            None => form.error(&ServiceError::NotFound, &app, &asked.headers),
        },
    }
}

/// A part of the page's text as JSON, which is not cached.
pub(super) async fn part(slug: &Slug, part: Body<Part>, app: &AppState, asked: &Asked) -> Response {
    let answer = async {
        let page = app.service.read(slug).await?;
        if shows_key(&asked.uri) {
            return Err(ServiceError::KeyInQuery);
        }
        let part = part?;
        let included = Included { content: true, html: false, part: Some(part) };
        let described = DescribedPart { page: app.about(&page.head), part, app };
        let body = Bytes::from(PageBody::json(&page, &app.base_url, included));
        let made = |coding| Some((coding == Coding::Identity).then_some(&body));
        Ok(respond(&asked.headers, &described, made).0.expect("the body without a coding is there"))
    };
    answer.await.unwrap_or_else(|error| app.failed(&error))
}

impl PageForm {
    fn named<'a>(name: &'a str, headers: &HeaderMap) -> (Self, &'a str) {
        match name.strip_suffix(".md") {
            Some(slug) => (Self::Markdown(Source::OwnAddress), slug),
            None if prefers_markdown(headers) => (Self::Markdown(Source::Negotiated), name),
            None => (Self::Html, name),
        }
    }

    pub(super) async fn read(self, slug: &Slug, app: &AppState, asked: &Asked) -> Response {
        match self.answer(slug, app, &asked.headers).await {
            Ok(response) => unless_key_shown(&asked.uri, app, response),
            Err(error) => self.error(&error, app, &asked.headers),
        }
    }

    async fn answer(self, slug: &Slug, app: &AppState, headers: &HeaderMap) -> Result<Response, ServiceError> {
        let service = &app.service;
        if let Some(response) = self.ready(service.cached(slug).as_deref(), slug, app, headers) {
            return Ok(response);
        }
        let found = service.find(slug, headers.contains_key(IF_NONE_MATCH)).await?;
        if let Some(response) = self.ready(found.cached.as_deref(), slug, app, headers) {
            return Ok(response);
        }
        if let Some(unchanged) = found.head().and_then(|head| self.unchanged(head, app, headers)) {
            return Ok(unchanged);
        }
        let page = service.load(found).await?;
        let is_noindex = app.about(&page.head).is_noindex;
        let [form, preferred] = [Coding::Identity, Coding::preferred(headers)].map(|coding| self.number(coding));
        let body = self.body(&page, app);
        let cached = service.cache().insert(page, is_noindex, form, body, preferred);
        Ok(self.of(&cached, slug, app, headers).expect("the body without a coding is there"))
    }

    fn ready(self, cached: Option<&CachedPage>, slug: &Slug, app: &AppState, headers: &HeaderMap) -> Option<Response> {
        let response = self.of(cached?, slug, app, headers)?;
        app.service.cache().count_hit();
        Some(response)
    }

    fn of(self, cached: &CachedPage, slug: &Slug, app: &AppState, headers: &HeaderMap) -> Option<Response> {
        let &CachedPage { state, renderer_version, is_noindex, .. } = cached;
        let page = PageMetadata { slug, state, renderer_version, is_noindex };
        let described = DescribedPage { form: self, page, app };
        let (response, can_be_compressed) = respond(headers, &described, |coding| cached.form(self.number(coding)));
        let (identity, coded) = (self.number(Coding::Identity), self.number(Coding::Gzip));
        if let Some(bytes) = cached.form(identity).flatten().filter(|_| can_be_compressed).cloned() {
            // It is made for later requests.
            let (cache, slug, cached) = (app.service.cache().clone(), slug.clone(), cached.clone());
            app.compressor.begin(move || cache.insert_encoded(&slug, &cached, coded, gzip(&bytes), identity));
        }
        response
    }

    fn error(self, error: &ServiceError, app: &AppState, headers: &HeaderMap) -> Response {
        let mut response = match self {
            Self::Json => return app.failed(error),
            // A shell has no use for a page of style.
            Self::Html | Self::Markdown(_) if !site::prefers_html_errors(headers) => app.failed(error),
            Self::Html | Self::Markdown(_) => site::error_page(error, app),
        };
        response.headers_mut().entry(VARY).or_insert(HeaderValue::from_static("Accept"));
        response
    }

    fn unchanged(self, page: &PageHead, app: &AppState, headers: &HeaderMap) -> Option<Response> {
        // Nothing is cached, so the response would be uncompressed, and `*` stands for that.
        unchanged(
            headers,
            Coding::preferred(headers),
            &DescribedPage { form: self, page: app.about(page), app },
            Coding::Identity,
        )
    }

    fn number(self, coding: Coding) -> FormNumber {
        let form = match self {
            Self::Json => 0,
            Self::Html => 3,
            Self::Markdown(Source::OwnAddress) => 6,
            Self::Markdown(Source::Negotiated) => 9,
        };
        form + coding as u8
    }

    fn body(self, page: &PageRead<'_>, app: &AppState) -> Bytes {
        match self {
            Self::Json => PageBody::json(page, &app.base_url, Included::ALL).into(),
            // Holds no spare capacity.
            Self::Html => site::html_of(page, app).into_boxed_str().into_boxed_bytes().into(),
            Self::Markdown(source) => site::markdown_of(page, source),
        }
    }
}

impl Cacheable for DescribedPart<'_> {
    fn content_type(&self) -> HeaderValue {
        JSON
    }

    fn fields(&self) -> HeaderMap {
        let mut fields = HeaderMap::from_iter([(CACHE_CONTROL, REVALIDATE)]);
        self.page.mark_noindex(&mut fields);
        fields
    }

    fn tag(&self, coding: Coding) -> HeaderValue {
        let Part { offset, max_chars } = self.part;
        json_tag_in(&format!("part.{offset}.{max_chars}."), coding, &self.page, self.app)
    }
}

impl Cacheable for DescribedPage<'_> {
    fn content_type(&self) -> HeaderValue {
        match self.form {
            PageForm::Json => JSON,
            PageForm::Html => HTML,
            PageForm::Markdown(_) => MARKDOWN,
        }
    }

    fn fields(&self) -> HeaderMap {
        let (app, slug) = (self.app, self.page.slug);
        let mut fields = HeaderMap::with_capacity(FIELDS);
        match self.form {
            PageForm::Json => {
                fields.insert(CACHE_CONTROL, REVALIDATE);
                fields.insert(VARY, VARY_CODING);
            }
            PageForm::Html => site::html_fields_of(&mut fields, app, slug),
            PageForm::Markdown(source) => site::markdown_fields(&mut fields, app, slug, source),
        }
        self.page.mark_noindex(&mut fields);
        fields
    }

    fn tag(&self, coding: Coding) -> HeaderValue {
        match self.form {
            PageForm::Json => json_tag_in("json.", coding, &self.page, self.app),
            PageForm::Html => site::html_tag(coding, &self.page, self.app),
            PageForm::Markdown(source) => site::markdown_tag(coding, &self.page, source),
        }
    }
}
