//! Pages for people: a page as HTML or Markdown, the home page, and what goes with them.

mod article;
pub mod assets;
pub mod templates;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LINK, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use percent_encoding::percent_decode_str;

use self::assets::Asset;
use self::templates::{GoneView, HomeView, NotFoundView, PageView};
use super::Http;
use super::error::{error_response, service_error_response};
use super::etag::{REVALIDATE, entity_tag, respond};
use super::extract::SlugParam;
use super::robots::mark_noindex;
use super::static_response::{CACHE_ONE_HOUR, StaticResponse};
use crate::api::error::ApiError;
use crate::api::metadata;
use crate::api::request::accept::weight;
use crate::api::types::page_url;
use crate::domain::page::Page;
use crate::domain::slug::Slug;
use crate::domain::title::Title;
use crate::service::ServiceError;

const MARKDOWN: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Markdown at the address of the HTML: a shared cache that ignores `Vary` must not give it to a browser.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// How long crawlers may go by what they read once.
const FOR_A_DAY: HeaderValue = HeaderValue::from_static("public, max-age=86400");

/// `GET /<slug>` and `GET /<slug>.md`: the suffix cannot be part of a route, so it is taken off here.
pub(in crate::http) async fn page(
    State(http): State<Arc<Http>>,
    SlugParam(name): SlugParam,
    headers: HeaderMap,
) -> Response {
    if let Some(address) = before_punctuation(&name) {
        return moved(&http, address);
    }
    let mut response = match name.strip_suffix(".md") {
        Some(slug) => markdown(&http, slug, &headers, REVALIDATE).await,
        None if prefers_markdown(&headers) => markdown(&http, &name, &headers, PRIVATE).await,
        None => html(&http, &name, &headers).await,
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// What `GET /` gives.
pub(in crate::http) fn home(http: &Http) -> StaticResponse {
    let base_url = &http.base_url;
    let html = HomeView { base_url: base_url.as_str(), create_quota: http.service.quotas().create }.render();
    let docs = format!(r#"<{base_url}{}>; rel="service-doc"; type="text/plain""#, metadata::path::LLMS);
    StaticResponse::new("text/html; charset=utf-8", html)
        .with(CONTENT_SECURITY_POLICY, page_policy())
        .with(LINK, HeaderValue::try_from(docs).expect("an origin is ASCII"))
}

/// `GET /assets/<name>`, which only pages of an older release ask for.
pub(in crate::http) async fn asset(
    State(http): State<Arc<Http>>,
    SlugParam(name): SlugParam,
    request: Request,
) -> Response {
    match assets::of_older_pages(&name) {
        // Its address names other bytes.
        Some(asset) => asset_response(asset, REVALIDATE, request.headers()),
        None => not_found_response(&http, &request),
    }
}

/// `GET /robots.txt`.
pub(in crate::http) async fn robots_txt(headers: HeaderMap) -> Response {
    asset_response(&assets::ROBOTS_TXT, FOR_A_DAY, &headers)
}

/// `GET /favicon.ico`: the icon of every page, which browsers ask for in other places too.
pub(in crate::http) async fn favicon(headers: HeaderMap) -> Response {
    // This address stays the same when the icon changes.
    asset_response(&assets::FAVICON, CACHE_ONE_HOUR, &headers)
}

/// Whatever has no route.
pub(in crate::http) async fn not_found(State(http): State<Arc<Http>>, request: Request) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD)
        && let Ok(path) = percent_decode_str(request.uri().path()).decode_utf8()
        && let Some(address) = path.strip_prefix('/').and_then(before_punctuation)
    {
        return moved(&http, address);
    }
    not_found_response(&http, &request)
}

/// The page's address in `name`, if that is one with a `/`, `.` or `)` behind it. Those who write an address in a sentence
/// put them there, and programs that find addresses in texts take them for a part of it.
fn before_punctuation(name: &str) -> Option<&str> {
    let address = name.trim_end_matches(['/', '.', ')']);
    let slug = address.strip_suffix(".md").unwrap_or(address);
    (address.len() < name.len() && Slug::parse(slug).is_ok()).then_some(address)
}

/// Sends the client to `address`. No store is asked: whether there is a page, its own address says.
fn moved(http: &Http, address: &str) -> Response {
    let location = format!("{}/{address}", http.base_url);
    let location = HeaderValue::try_from(location).expect("an origin and a slug are ASCII");
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, location), (CACHE_CONTROL, CACHE_ONE_HOUR)]).into_response()
}

/// A page where a browser asks for one, JSON otherwise and wherever programs ask.
fn not_found_response(http: &Http, request: &Request) -> Response {
    let path = request.uri().path();
    let is_for_programs = ["/api/", "/.well-known/", "/oauth/", "/mcp/"].iter().any(|below| path.starts_with(below));
    let asks_for_page = asks_for_html(request.headers()) && !is_for_programs;
    let mut response =
        if asks_for_page { failure_page(&ServiceError::NotFound, http) } else { error_response(&ApiError::no_route()) };
    // A cache may keep a 404 without being asked to.
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

async fn html(http: &Http, slug: &str, headers: &HeaderMap) -> Response {
    let page = match http.service.read(slug).await {
        Ok(page) => page,
        Err(error) => return failure_page(&error, http),
    };
    // A new layout is a new representation of the same page.
    let tag = entity_tag(&page, &format!("html.{}.{}", templates::fingerprint(), http.origin_tag));
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
            code_blocks: &page.rendered.code_blocks,
            language: page.rendered.language,
            description: &page.rendered.excerpt,
            created_at: page.created_at,
            updated_at: page.updated_at,
            noindex: page.rendered.has_external_links(&http.base_url),
        };
        ([(CONTENT_TYPE, HTML)], view.render()).into_response()
    })
}

async fn markdown(http: &Http, slug: &str, headers: &HeaderMap, caching: HeaderValue) -> Response {
    match http.service.read(slug).await {
        Ok(page) => respond(headers, markdown_fields(http, &page, caching), || {
            ([(CONTENT_TYPE, MARKDOWN)], page.content.as_str().to_owned()).into_response()
        }),
        Err(error) if asks_for_html(headers) => failure_page(&error, http),
        Err(error) => service_error_response(&error, &http.base_url),
    }
}

fn markdown_fields(http: &Http, page: &Page, caching: HeaderValue) -> HeaderMap {
    let mut fields = HeaderMap::from_iter([(CACHE_CONTROL, caching), (ETAG, entity_tag(page, "md"))]);
    mark_noindex(&mut fields, page, &http.base_url);
    fields
}

/// 404 and 410 are pages too; whatever else may fail answers as the API does.
fn failure_page(error: &ServiceError, http: &Http) -> Response {
    let base_url = http.base_url.as_str();
    match error {
        ServiceError::NotFound => html_response(StatusCode::NOT_FOUND, NotFoundView { base_url }.render()),
        ServiceError::Gone => html_response(StatusCode::GONE, GoneView { base_url }.render()),
        _ => service_error_response(error, &http.base_url),
    }
}

fn html_response(status: StatusCode, html: String) -> Response {
    (status, html_fields(), [(CONTENT_TYPE, HTML)], html).into_response()
}

/// The header fields of every page for people.
fn html_fields() -> HeaderMap {
    HeaderMap::from_iter([(CACHE_CONTROL, REVALIDATE), (CONTENT_SECURITY_POLICY, page_policy())])
}

fn page_policy() -> HeaderValue {
    HeaderValue::from_static(&templates::CONTENT_SECURITY_POLICY)
}

fn asset_response(asset: &'static Asset, caching: HeaderValue, request: &HeaderMap) -> Response {
    StaticResponse::tagged(asset.content_type, asset.bytes, &asset.tag).with(CACHE_CONTROL, caching).answer(request)
}

/// Whether a client would rather have Markdown: it names `text/markdown`, and not `text/html` with a higher weight.
/// A wildcard asks for neither, so browsers and plain `curl` get HTML.
fn prefers_markdown(headers: &HeaderMap) -> bool {
    let [markdown, html] = ["text/markdown", "text/html"].map(|media_type| weight(headers, media_type).unwrap_or(0.0));
    markdown > 0.0 && markdown >= html
}

/// Whether a client would have an error as a page: it names `text/html`, and not `application/json` with a higher weight.
fn asks_for_html(headers: &HeaderMap) -> bool {
    let [html, json] = ["text/html", "application/json"].map(|media_type| weight(headers, media_type).unwrap_or(0.0));
    html > 0.0 && html >= json
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT;

    use super::*;

    fn prefers(accept: &'static str) -> bool {
        prefers_markdown(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
    }

    #[test]
    fn only_what_follows_a_pages_address_is_taken_off() {
        for name in ["hello-2222bbbb/", "hello-2222bbbb.", "hello-2222bbbb)", "hello-2222bbbb).", "hello-2222bbbb//"] {
            assert_eq!(before_punctuation(name), Some("hello-2222bbbb"), "{name}");
        }
        assert_eq!(before_punctuation("hello-2222bbbb.md)."), Some("hello-2222bbbb.md"));
        for name in
            ["hello-2222bbbb", "hello-2222bbbb.md", "hello/", "", "/", "hello-2222bbbb,", "a/hello-2222bbbb/", ".md."]
        {
            assert_eq!(before_punctuation(name), None, "{name}");
        }
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
