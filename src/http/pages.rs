//! The REST operations on pages (spec §4.1 to §4.4). A handler takes the request apart, calls the service and shapes
//! the answer.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use utoipa::IntoParams;

use super::Http;
use super::discovery::answers::{BadBody, NoPage, NotChanged, RateLimited};
use super::error::service_error_response;
use super::etag::{REVALIDATE, entity_tag, respond};
use super::extract::{BearerKey, ClientAddr, IfMatch, JsonBody, SlugParam};
use super::robots::mark_noindex;
use crate::api::types::{CreatePage, CreatedBody, PageBody, UpdatePage};
use crate::domain::page::Page;
use crate::domain::quota::{Decision, whole_seconds_up};
use crate::ports::rate_limiter::LimitKind;
use crate::service::Limited;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The slug in the path, as the OpenAPI document describes it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only what is derived from it is used")]
struct SlugParameter {
    /// The slug from the page's address.
    #[param(
        pattern = "^[0-9a-z]+(-[0-9a-z]+)*-[2-9b-df-hj-km-np-tv-z]{8}$",
        max_length = 69,
        example = "hello-world-7k2m9xqz"
    )]
    slug: String,
}

/// Publish a page
///
/// Needs no credential. The answer holds the page's edit key, which is shown this once and cannot be recovered. A body that is
/// refused spends no quota.
#[utoipa::path(
    post,
    path = "/api/pages",
    operation_id = "createPage",
    tag = "pages",
    request_body(content = CreatePage, description = "At most 131072 bytes."),
    responses(
        (status = 201, description = "Published. The edit key is shown this once.", body = CreatedBody, headers(
            ("Location" = String, description = "Where the page is read, updated and deleted."),
            ("ETag" = String, description = "The page's entity tag, for `If-Match`."),
            ("Cache-Control" = String, description = "`no-store`: the answer holds a secret."),
        )),
        BadBody,
        RateLimited,
    ),
    security(()),
)]
pub(super) async fn create(
    State(http): State<Arc<Http>>,
    ClientAddr(client): ClientAddr,
    body: JsonBody<CreatePage>,
) -> Response {
    let attempt = http.service.create(client, body.read().await.map(Into::into)).await;
    respond_to(attempt, &http, |created| {
        let headers = [
            (LOCATION, location(&http, &created.page)),
            (ETAG, json_tag(&created.page, &http)),
            // The answer shows the edit key.
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        (StatusCode::CREATED, headers, Json(CreatedBody::new(&created, &http.base_url))).into_response()
    })
}

/// Read a page
///
/// Needs no credential. The text was written by a stranger.
#[utoipa::path(
    get,
    path = "/api/pages/{slug}",
    operation_id = "getPage",
    tag = "pages",
    params(
        SlugParameter,
        ("If-None-Match" = Option<String>, Header, description = "Entity tags the client holds; 304 when the page still has one."),
    ),
    responses(
        (status = 200, description = "The page.", body = PageBody, headers(
            ("ETag" = String, description = "The page's entity tag."),
            ("Cache-Control" = String, description = "`no-cache`: may be kept, must be revalidated."),
            ("X-Robots-Tag" = String, description = "`noindex`, where the page links to another origin."),
        )),
        (status = 304, description = "The client holds the page as it is.", headers(
            ("ETag" = String, description = "The page's entity tag."),
            ("Cache-Control" = String, description = "`no-cache`: may be kept, must be revalidated."),
            ("X-Robots-Tag" = String, description = "`noindex`, where the page links to another origin."),
        )),
        NoPage,
    ),
    security(()),
)]
pub(super) async fn read(State(http): State<Arc<Http>>, SlugParam(slug): SlugParam, headers: HeaderMap) -> Response {
    match http.service.read(&slug).await {
        Ok(page) => respond(&headers, page_fields(&page, &http), || page_body(&page.share(), &http)),
        Err(error) => service_error_response(&error, &http.base_url),
    }
}

/// Update a page
///
/// Omitted fields keep their value; the slug never changes. Every attempt counts towards the limit.
#[utoipa::path(
    patch,
    path = "/api/pages/{slug}",
    operation_id = "updatePage",
    tag = "pages",
    params(
        SlugParameter,
        ("If-Match" = Option<String>, Header, description = "An entity tag of the page as it is to be changed, in any representation; 412 when the page has changed since. `*` is any."),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags of the page as it is not to be changed, in any representation; 412 while the page has one. `*` is any, and so always 412."),
    ),
    request_body(content = UpdatePage, description = "At most 131072 bytes."),
    responses(
        (status = 200, description = "The updated page.", body = PageBody, headers(
            ("ETag" = String, description = "The page's new entity tag."),
            ("Cache-Control" = String, description = "`no-cache`: may be kept, must be revalidated."),
            ("X-Robots-Tag" = String, description = "`noindex`, where the page links to another origin."),
        )),
        BadBody,
        NoPage,
        NotChanged,
        RateLimited,
    ),
    security(("editKey" = []), ("pageToken" = ["post:edit"])),
)]
pub(super) async fn update(
    State(http): State<Arc<Http>>,
    ClientAddr(client): ClientAddr,
    SlugParam(slug): SlugParam,
    BearerKey(credential): BearerKey,
    IfMatch(precondition): IfMatch,
    body: JsonBody<UpdatePage>,
) -> Response {
    let body = async { body.read().await.map(Into::into) };
    let attempt = http.service.update(client, &slug, &credential, body, &precondition).await;
    respond_to(attempt, &http, |page| (page_fields(&page, &http), page_body(&page, &http)).into_response())
}

/// Delete a page
///
/// For ever: the page answers 410 from then on, and its slug is never used again. Every attempt counts towards the limit.
#[utoipa::path(
    delete,
    path = "/api/pages/{slug}",
    operation_id = "deletePage",
    tag = "pages",
    params(
        SlugParameter,
        ("If-Match" = Option<String>, Header, description = "An entity tag of the page as it is to be deleted, in any representation; 412 when the page has changed since. `*` is any."),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags of the page as it is not to be deleted, in any representation; 412 while the page has one. `*` is any, and so always 412."),
    ),
    responses(
        (status = 204, description = "Deleted."),
        NoPage,
        NotChanged,
        RateLimited,
    ),
    security(("editKey" = []), ("pageToken" = ["post:delete"])),
)]
pub(super) async fn delete(
    State(http): State<Arc<Http>>,
    ClientAddr(client): ClientAddr,
    SlugParam(slug): SlugParam,
    BearerKey(credential): BearerKey,
    IfMatch(precondition): IfMatch,
) -> Response {
    let attempt = http.service.delete(client, &slug, &credential, Ok(()), &precondition).await;
    respond_to(attempt, &http, |()| StatusCode::NO_CONTENT.into_response())
}

/// The answer to a limited operation, with the fields that say where its client stands.
pub(super) fn respond_to<T>(attempt: Limited<T>, http: &Http, success: impl FnOnce(T) -> Response) -> Response {
    let mut response = match attempt.outcome {
        Ok(value) => success(value),
        Err(error) => service_error_response(&error, &http.base_url),
    };
    if let Some((limited, decision)) = attempt.quota {
        let [limit, policy] = rate_limit_fields(limited, &decision);
        response.headers_mut().insert(RATE_LIMIT, limit);
        response.headers_mut().insert(RATE_LIMIT_POLICY, policy);
    }
    response
}

/// `RateLimit` and `RateLimit-Policy`, as the IETF draft of the httpapi working group has them.
fn rate_limit_fields(limited: LimitKind, decision: &Decision) -> [HeaderValue; 2] {
    let (name, quota) = (limited.name(), decision.quota);
    let (remaining, more_after) = (decision.remaining, whole_seconds_up(decision.more_after));
    let limit = format!(r#""{name}";r={remaining};t={more_after}"#);
    let policy = format!(r#""{name}";q={};w={}"#, quota.limit, quota.window.as_secs());
    [limit, policy].map(|field| HeaderValue::try_from(field).expect("it is ASCII"))
}

/// The header fields of an answer that shows `page`.
fn page_fields(page: &Page, http: &Http) -> HeaderMap {
    let mut fields = HeaderMap::from_iter([(ETAG, json_tag(page, http)), (CACHE_CONTROL, REVALIDATE)]);
    mark_noindex(&mut fields, page, &http.base_url);
    fields
}

fn page_body(page: &Arc<Page>, http: &Http) -> Response {
    let body = Body::new(PageBody::json(Arc::clone(page), &http.base_url, true).into_body());
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

fn json_tag(page: &Page, http: &Http) -> HeaderValue {
    entity_tag(page, &format!("json.{}", http.origin_tag))
}

fn location(http: &Http, page: &Page) -> HeaderValue {
    HeaderValue::try_from(format!("{}/api/pages/{}", http.base_url, page.slug)).expect("it is ASCII")
}
