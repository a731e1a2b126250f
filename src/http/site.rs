//! Pages for people: a page as HTML or Markdown, the home page, and what goes with them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LINK, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::Http;
use super::assets::{self, Asset};
use super::conditional::{REVALIDATE, entity_tag, respond};
use super::error::{failure_response, problem_response};
use super::extract::SlugText;
use super::fixed::{FOR_AN_HOUR, Fixed};
use super::robots::mark_noindex;
use super::views::{self, GoneView, HomeView, NotFoundView, PageView};
use crate::about;
use crate::domain::page::Page;
use crate::domain::title::Title;
use crate::incoming::accept::weight;
use crate::problem::Problem;
use crate::service::Failure;
use crate::wire::page_url;

const MARKDOWN: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// `GET /<slug>` and `GET /<slug>.md`: the suffix cannot be part of a route, so it is taken off here.
pub(super) async fn page(State(http): State<Arc<Http>>, SlugText(name): SlugText, headers: HeaderMap) -> Response {
    let mut response = match name.strip_suffix(".md") {
        Some(slug) => markdown(&http, slug, &headers).await,
        None if prefers_markdown(&headers) => markdown(&http, &name, &headers).await,
        None => html(&http, &name, &headers).await,
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// What `GET /` gives.
pub(super) fn home(http: &Http) -> Fixed {
    let base_url = &http.base_url;
    let html = HomeView { base_url: base_url.as_str(), create_quota: http.service.quotas().create }.render();
    let docs = format!(r#"<{base_url}{}>; rel="service-doc"; type="text/plain""#, about::path::LLMS);
    Fixed::new("text/html; charset=utf-8", html)
        .with(CONTENT_SECURITY_POLICY, HeaderValue::from_static(views::CONTENT_SECURITY_POLICY))
        .with(LINK, HeaderValue::try_from(docs).expect("an origin is ASCII"))
}

/// `GET /assets/<name>` and `/robots.txt`.
pub(super) async fn asset(State(http): State<Arc<Http>>, request: Request) -> Response {
    match assets::by_path(request.uri().path()) {
        Some(asset) => asset_response(asset, HeaderValue::from_static(asset.cache_control), request.headers()),
        None => nothing_here(&http, &request),
    }
}

/// `GET /favicon.ico`, which browsers ask for wherever no page has told them of the icon.
pub(super) async fn favicon(headers: HeaderMap) -> Response {
    // This address stays the same when the icon changes.
    asset_response(&assets::FAVICON, FOR_AN_HOUR, &headers)
}

/// Whatever has no route.
pub(super) async fn not_found(State(http): State<Arc<Http>>, request: Request) -> Response {
    nothing_here(&http, &request)
}

/// A page where a browser asks for one, JSON otherwise and wherever programs ask.
fn nothing_here(http: &Http, request: &Request) -> Response {
    let path = request.uri().path();
    let is_for_programs = ["/api/", "/.well-known/", "/oauth/", "/mcp/"].iter().any(|below| path.starts_with(below));
    let mut accepted = request.headers().get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let asks_for_page = accepted.any(|line| line.contains("text/html")) && !is_for_programs;
    let mut response =
        if asks_for_page { failure_page(&Failure::NotFound, http) } else { problem_response(&Problem::no_route()) };
    // A cache may keep a 404 without being asked to.
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

async fn html(http: &Http, slug: &str, headers: &HeaderMap) -> Response {
    let page = match http.service.read(slug).await {
        Ok(page) => page,
        Err(failure) => return failure_page(&failure, http),
    };
    // A new layout is a new representation of the same page.
    let tag = entity_tag(&page, &format!("html.{}.{}", views::fingerprint(), http.origin_tag));
    let url = page_url(&page.slug, &http.base_url);
    let markdown_url = format!("{url}.md");
    let mut fields = html_fields();
    fields.insert(ETAG, tag);
    if let Ok(link) = HeaderValue::try_from(format!(r#"<{markdown_url}>; rel="alternate"; type="text/markdown""#)) {
        fields.insert(LINK, link);
    }
    mark_noindex(&mut fields, &page, &http.base_url);
    respond(headers, fields, || {
        let view = PageView {
            base_url: http.base_url.as_str(),
            url: &url,
            markdown_url: &markdown_url,
            title: page.title.as_ref().map(Title::as_str),
            content_html: &page.rendered.html,
            description: &views::description(&page.rendered.html),
            created_at: page.created_at,
            updated_at: page.updated_at,
            noindex: page.rendered.has_external_links(&http.base_url),
        };
        ([(CONTENT_TYPE, HTML)], view.render()).into_response()
    })
}

async fn markdown(http: &Http, slug: &str, headers: &HeaderMap) -> Response {
    match http.service.read(slug).await {
        Ok(page) => respond(headers, markdown_fields(http, &page), || {
            ([(CONTENT_TYPE, MARKDOWN)], page.content.as_str().to_owned()).into_response()
        }),
        Err(failure) => failure_response(&failure, &http.base_url),
    }
}

fn markdown_fields(http: &Http, page: &Page) -> HeaderMap {
    let mut fields = HeaderMap::from_iter([(CACHE_CONTROL, REVALIDATE), (ETAG, entity_tag(page, "md"))]);
    mark_noindex(&mut fields, page, &http.base_url);
    fields
}

/// 404 and 410 are pages too; whatever else may fail answers as the API does.
fn failure_page(failure: &Failure, http: &Http) -> Response {
    let base_url = http.base_url.as_str();
    match failure {
        Failure::NotFound => html_response(StatusCode::NOT_FOUND, NotFoundView { base_url }.render()),
        Failure::Gone => html_response(StatusCode::GONE, GoneView { base_url }.render()),
        _ => failure_response(failure, &http.base_url),
    }
}

fn html_response(status: StatusCode, html: String) -> Response {
    (status, html_fields(), [(CONTENT_TYPE, HTML)], html).into_response()
}

/// The header fields of every page for people.
fn html_fields() -> HeaderMap {
    let policy = HeaderValue::from_static(views::CONTENT_SECURITY_POLICY);
    HeaderMap::from_iter([(CACHE_CONTROL, REVALIDATE), (CONTENT_SECURITY_POLICY, policy)])
}

fn asset_response(asset: &'static Asset, caching: HeaderValue, request: &HeaderMap) -> Response {
    Fixed::tagged(asset.content_type, asset.bytes, &asset.tag).with(CACHE_CONTROL, caching).answer(request)
}

/// Whether a client would rather have Markdown: it names `text/markdown`, and not `text/html` with a higher weight.
/// A wildcard asks for neither, so browsers and plain `curl` get HTML.
fn prefers_markdown(headers: &HeaderMap) -> bool {
    let [markdown, html] = ["text/markdown", "text/html"].map(|media_type| weight(headers, media_type).unwrap_or(0.0));
    markdown > 0.0 && markdown >= html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefers(accept: &'static str) -> bool {
        prefers_markdown(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
    }

    #[test]
    fn markdown_is_given_only_to_those_who_name_it_and_do_not_prefer_html() {
        assert!(prefers("text/markdown"));
        assert!(prefers("text/html, Text/Markdown, */*;q=0.1"));
        assert!(prefers("text/html;q=0.5, text/markdown;q=0.5"));
        assert!(!prefers("text/html, text/markdown;q=0.9"));
        assert!(!prefers("text/markdown;q=0"));
        assert!(!prefers("*/*"));
        assert!(!prefers_markdown(&HeaderMap::new()));
    }
}
