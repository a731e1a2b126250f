//! The site for people: pages as HTML or Markdown, the editor, the form, the icon and `robots.txt`.

mod article;
pub(in crate::http) mod assets;
pub(in crate::http) mod editor;
pub(in crate::http) mod form;
mod markdown;
pub mod templates;

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Router, body::Bytes, extract::State};
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LINK, LOCATION, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use percent_encoding::percent_decode_str;

use self::templates::{GoneTemplate, Layout, NotFoundTemplate, PAGE_POLICY, PageTemplate};
use super::document::{CACHE_ONE_HOUR, Document};
use super::error_response::unless_uri_holds_key;
use super::etag::{PageFacts, REVALIDATE, entity_tag};
use super::negotiation::{Coding, VARY_CODING, VARY_TYPE_AND_CODING};
use super::{extract::Asked, kept_body::KeptBody, representation::Source, state::AppState};

use crate::http::{error::ApiError, metadata, negotiation::prefers, types::page_url};
use handbill_pages::service::ServiceError;
use handbill_pages::values::{page::Page, slug::Slug};

pub(in crate::http) const MARKDOWN_TYPE: &str = "text/markdown; charset=utf-8";
pub(in crate::http) const MARKDOWN: HeaderValue = HeaderValue::from_static(MARKDOWN_TYPE);
pub(in crate::http) const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
const HTML_TYPE: &str = "text/html; charset=utf-8";
pub(in crate::http) const HTML: HeaderValue = HeaderValue::from_static(HTML_TYPE);

/// For shared caches alone (RFC 9213).
const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// A shared cache that ignores `Vary` must not give Markdown to a browser.
const PRIVATE_REVALIDATE: HeaderValue = HeaderValue::from_static("private, no-cache");

const CACHE_ONE_DAY: HeaderValue = HeaderValue::from_static("public, max-age=86400");

pub(in crate::http) fn files<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let [(favicon, svg, _), (small, png, _), (large, ..)] = metadata::ICONS;
    // An icon may change at the same address.
    let files: [(_, _, &'static [u8], _); 6] = [
        (metadata::path::ROBOTS, PLAIN_TEXT, assets::ROBOTS_TXT.as_bytes(), CACHE_ONE_DAY),
        (favicon, svg, assets::FAVICON.as_bytes(), CACHE_ONE_HOUR),
        (small, png, assets::ICON_SMALL, CACHE_ONE_HOUR),
        (large, png, assets::ICON_LARGE, CACHE_ONE_HOUR),
        (metadata::path::ICON_PHONE, png, assets::ICON_PHONE, CACHE_ONE_HOUR),
        ("/card.png", png, assets::CARD, CACHE_ONE_DAY),
    ];
    files.into_iter().fold(Router::new(), |routes, (path, media_type, bytes, caching)| {
        routes.route(path, Document::new(media_type, bytes).with(CACHE_CONTROL, caching).route())
    })
}

/// The home page, as HTML for people and as Markdown for programs that would rather have it.
pub(in crate::http) fn home_route(app: &AppState, markdown: Document) -> MethodRouter<Arc<AppState>> {
    let [home, markdown] = [editor::home(app), markdown.with(CACHE_CONTROL, PRIVATE_REVALIDATE)]
        .map(|page| page.with(VARY, VARY_TYPE_AND_CODING).with(LINK, editor::home_links(app)));
    get(move |headers: HeaderMap| {
        let page = if prefers_markdown(&headers) { &markdown } else { &home };
        std::future::ready(page.respond_to(&headers))
    })
}

pub(in crate::http) async fn not_found(State(app): State<Arc<AppState>>, method: Method, asked: Asked) -> Response {
    if matches!(method, Method::GET | Method::HEAD)
        && let Ok(path) = percent_decode_str(asked.uri.path()).decode_utf8()
        && let Some(address) = path.strip_prefix('/').and_then(before_punctuation)
    {
        return redirect_to(&app, address, &asked.uri);
    }
    not_found_response(&app, &asked)
}

/// Drops a final `/`, `.` or `)`: programs that detect links in sentences include them.
pub(in crate::http) fn before_punctuation(name: &str) -> Option<&str> {
    let address = name.trim_end_matches(['/', '.', ')']);
    let slug = address.strip_suffix(".md").unwrap_or(address);
    (address.len() < name.len() && Slug::parse(slug).is_ok()).then_some(address)
}

/// Does not check that the page exists.
pub(in crate::http) fn redirect_to(app: &AppState, address: &str, asked: &Uri) -> Response {
    let location = format!("{}/{address}", app.base_url);
    let location = HeaderValue::try_from(location).expect("an origin and a slug are ASCII");
    let fields = [(LOCATION, location), (CACHE_CONTROL, CACHE_ONE_HOUR)];
    unless_uri_holds_key(asked, app, (StatusCode::PERMANENT_REDIRECT, fields).into_response())
}

/// HTML for browsers; JSON for others, and below the API's paths.
fn not_found_response(app: &AppState, asked: &Asked) -> Response {
    let path = asked.uri.path();
    let is_for_programs = ["/api/", "/.well-known/", "/oauth/", "/mcp/"].iter().any(|below| path.starts_with(below));
    let asks_for_page = prefers_html_errors(&asked.headers) && !is_for_programs;
    let mut response =
        if asks_for_page { error_page(&ServiceError::NotFound, app) } else { ApiError::no_route().into_response() };
    // A cache may keep a 404 unasked.
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

pub(in crate::http) fn html_of(page: &Page, app: &AppState) -> KeptBody {
    let url = page_url(&page.head.slug, &app.base_url);
    let markdown_url = format!("{url}.md");
    let report_url = app.site.abuse_contact.as_ref().map(|contact| contact.report(&url));
    let template = PageTemplate {
        layout: Layout { frame: "", ..Layout::of(app) },
        url: &url,
        markdown_url: &markdown_url,
        details: &page.head.state.details,
        content_html: &page.text.html,
        code_blocks: &page.text.code_blocks,
        language: page.text.language,
        description: &page.text.excerpt,
        created_at: page.head.created_at,
        updated_at: page.head.updated_at,
        noindex: app.about(&page.head).is_noindex,
        report_url: report_url.as_deref(),
    };
    KeptBody::without_frame(templates::html(&template, page.text.html.len()))
}

/// The fingerprint changes with the layout.
pub(in crate::http) fn html_tag(coding: Coding, page: &PageFacts, app: &AppState) -> HeaderValue {
    entity_tag(page, &["html.", templates::fingerprint(), ".", &app.origin_tag], coding.name())
}

pub(in crate::http) fn html_fields_of(fields: &mut HeaderMap, app: &AppState, slug: &Slug) {
    fields.insert(LINK, link_to_source(app, slug));
    fields.insert(CACHE_CONTROL, REVALIDATE);
    fields.insert(CONTENT_SECURITY_POLICY, PAGE_POLICY.clone());
    fields.insert(VARY, VARY_TYPE_AND_CODING);
    admit_shared_caches(fields, app);
}

fn link_to_source(app: &AppState, slug: &Slug) -> HeaderValue {
    let link = ["<", app.base_url.as_str(), "/", slug.as_str(), r#".md>; rel="alternate"; type="text/markdown""#];
    HeaderValue::try_from(link.concat()).expect("an origin is ASCII")
}

/// If operators allow it (contract, decision 21). Browsers ignore this field (RFC 9213), and ask each time.
fn admit_shared_caches(fields: &mut HeaderMap, app: &AppState) {
    if let Some(directives) = &app.edge {
        fields.insert(CDN_CACHE_CONTROL, directives.clone());
    }
}

pub(in crate::http) fn markdown_of(page: &Page, source: Source) -> Bytes {
    let markdown = match source {
        Source::OwnAddress => page.text.content.as_str().into(),
        Source::Negotiated => markdown::with_title(page),
    };
    Bytes::copy_from_slice(markdown.as_bytes())
}

/// The title may be written in another way by another version.
pub(in crate::http) fn markdown_tag(coding: Coding, page: &PageFacts, source: Source) -> HeaderValue {
    match source {
        Source::OwnAddress => entity_tag(page, &["md"], coding.name()),
        Source::Negotiated => entity_tag(page, &["titled.", env!("CARGO_PKG_VERSION")], coding.name()),
    }
}

pub(in crate::http) fn markdown_fields(fields: &mut HeaderMap, app: &AppState, slug: &Slug, source: Source) {
    // A saved file gets the page's name.
    let name = ["inline; filename=\"", slug.as_str(), ".md\""].concat();
    fields.insert(CONTENT_DISPOSITION, HeaderValue::try_from(name).expect("a slug is ASCII"));
    match source {
        Source::OwnAddress => {
            fields.insert(CACHE_CONTROL, REVALIDATE);
            fields.insert(VARY, VARY_CODING);
            admit_shared_caches(fields, app);
        }
        Source::Negotiated => {
            fields.insert(LINK, link_to_source(app, slug));
            // A shared cache that ignores `Vary` would send this to browsers.
            fields.insert(CACHE_CONTROL, PRIVATE_REVALIDATE);
            fields.insert(VARY, VARY_TYPE_AND_CODING);
        }
    }
}

/// HTML for 404 and 410, JSON for other errors.
pub(in crate::http) fn error_page(error: &ServiceError, app: &AppState) -> Response {
    let layout = Layout::of(app);
    match error {
        ServiceError::NotFound => {
            html_response(StatusCode::NOT_FOUND, templates::html(&NotFoundTemplate { layout }, 0))
        }
        ServiceError::Gone => html_response(StatusCode::GONE, templates::html(&GoneTemplate { layout }, 0)),
        _ => app.failed(error),
    }
}

fn html_response(status: StatusCode, html: String) -> Response {
    let fields = [(CACHE_CONTROL, REVALIDATE), (CONTENT_SECURITY_POLICY, PAGE_POLICY.clone()), (CONTENT_TYPE, HTML)];
    (status, fields, html).into_response()
}

/// A wildcard names neither type, so browsers and plain `curl` get HTML.
pub(in crate::http) fn prefers_markdown(headers: &HeaderMap) -> bool {
    prefers(headers, "text/markdown", "text/html")
}

/// `Accept` must name `text/html`, with no lower weight than `application/json`.
pub(in crate::http) fn prefers_html_errors(headers: &HeaderMap) -> bool {
    prefers(headers, "text/html", "application/json")
}
