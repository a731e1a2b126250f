//! The REST operations on pages (spec §4.1 to §4.4).

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use utoipa::IntoParams;

use super::error_response::{Endpoint, shows_key};
use super::etag::{NO_STORE, REVALIDATE, entity_tag, precondition};
use super::negotiation::Coding;
use super::reads::{self, PageForm};
use super::state::{AppState, PageMetadata};
use crate::http::metadata::{CREATE_PAGE, DELETE_PAGE, GET_PAGE, UPDATE_PAGE};
use crate::http::request::body::{RequestBody, is_json};
use crate::http::request::{credential, part};
use crate::http::types::{CreateBody, CreatedBody, Included, PageBody, ReadBody, UpdateBody};
use handbill_pages::ports::rate_limiter::LimitKind;
use handbill_pages::service::{Limited, ServiceError};
use handbill_pages::values::head::PageHead;
use handbill_pages::values::quota::{Decision, whole_seconds_up};
use handbill_pages::values::slug::Slug;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The capacity of an answer's header map, large enough that it never grows.
pub(super) const FIELDS: usize = 24;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Empty, and so never valid, if the path is not proper UTF-8: only the service knows whether a page exists.
pub(super) struct SlugParam(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for SlugParam {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let slug = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(slug.map(|Path(slug)| slug).unwrap_or_default()))
    }
}

/// For the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only the derived description is used")]
struct SlugParameter {
    /// The slug from the page's address.
    #[param(
        pattern = "^[0-9a-z]+(-[0-9a-z]+)*-[2-9b-df-hj-km-np-tv-z]{8}$",
        max_length = 69,
        example = "hello-world-7k2m9xqz"
    )]
    slug: String,
}

#[utoipa::path(
    post,
    path = "/api/pages",
    operation_id = CREATE_PAGE.operation_id,
    summary = CREATE_PAGE.title,
    description = CREATE_PAGE.rest_description(),
    tag = "pages",
    request_body = CreateBody,
    responses(
        (status = 201, description = "Published, by this request or, with the same `edit_key`, title and content, by an earlier one. A key that the server made is shown this once.", body = CreatedBody, headers(
            ("Location" = String, description = "The address for reading, updating and deleting the page."),
            ("ETag" = String, description = "The page's entity tag, for `If-Match`."),
            ("Cache-Control" = String, description = "`no-store`: the answer holds a secret."),
        )),
    ),
    security(()),
)]
pub(super) async fn create(State(http): State<Arc<AppState>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = RequestBody::of(&head.headers, body, is_json).await;
    if shows_key(&head.uri) {
        return http.key_shown(&head.method);
    }
    let attempt = http.service.create(http.proxies.client(&head), body.json::<CreateBody>().await).await;
    respond(attempt, Endpoint::Api, &http, |created| {
        let headers = [
            (LOCATION, location(&http, &created.page.head)),
            (ETAG, json_tag(&created.page.head, &http)),
            // The response shows the edit key.
            (CACHE_CONTROL, NO_STORE),
        ];
        (StatusCode::CREATED, headers, Json(CreatedBody::new(&created, &http.base_url))).into_response()
    })
}

/// `GET /api/pages/{slug}`.
#[utoipa::path(
    get,
    path = "/api/pages/{slug}",
    operation_id = GET_PAGE.operation_id,
    summary = GET_PAGE.title,
    description = GET_PAGE.rest_description(),
    tag = "pages",
    params(
        SlugParameter,
        ("offset" = Option<usize>, Query, description = "Asks for a part of the content: the characters (Unicode scalar values) to skip, which is `next_offset` of the part before."),
        ("max_chars" = Option<usize>, Query, description = "Asks for a part of the content: the most characters to return.", minimum = 1),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags that the client holds; 304 if the page still has one of them."),
    ),
    responses(
        (status = 200, description = "The page, or the part of it that `offset` and `max_chars` name.", body = ReadBody),
        (status = 304, description = "The page has not changed since the client read it."),
    ),
    security(()),
)]
pub(super) async fn read(State(http): State<Arc<AppState>>, SlugParam(slug): SlugParam, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let Ok(slug) = Slug::parse(&slug) else { return http.failed(&ServiceError::NotFound) };
    match head.uri.query().and_then(part::in_query) {
        Some(part) => reads::part(&slug, part, &http, &head).await,
        None => PageForm::Json.read(&slug, &http, &head).await,
    }
}

/// `PATCH /api/pages/{slug}`.
#[utoipa::path(
    patch,
    path = "/api/pages/{slug}",
    operation_id = UPDATE_PAGE.operation_id,
    summary = UPDATE_PAGE.title,
    description = UPDATE_PAGE.rest_description(),
    tag = "pages",
    params(
        SlugParameter,
        ("If-Match" = Option<String>, Header, description = "An entity tag of the page that the change is for, in any representation; 412 if the page has changed since. `*` matches any tag."),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags in any representation; 412 if the page has one of them. `*` matches any tag, and so always gives 412."),
    ),
    request_body = UpdateBody,
    responses(
        (status = 200, description = "The updated page.", body = PageBody),
    ),
    security(("editKey" = []), ("pageToken" = ["post:edit"])),
)]
pub(super) async fn update(
    State(http): State<Arc<AppState>>,
    SlugParam(slug): SlugParam,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let body = RequestBody::of(&head.headers, body, is_json).await.json::<UpdateBody>();
    let (client, key, precondition) =
        (http.proxies.client(&head), credential::in_head(&head), precondition(&head.headers));
    let attempt = http.service.update(client, &slug, &key, body, &precondition).await;
    respond(attempt, Endpoint::Api, &http, |page| {
        let fields = [(CACHE_CONTROL, REVALIDATE), (ETAG, json_tag(&page.head, &http)), (CONTENT_TYPE, JSON)];
        let mut response = (fields, PageBody::json(&page, &http.base_url, Included::ALL)).into_response();
        http.about(&page.head).mark_noindex(response.headers_mut());
        response
    })
}

/// `DELETE /api/pages/{slug}`.
#[utoipa::path(
    delete,
    path = "/api/pages/{slug}",
    operation_id = DELETE_PAGE.operation_id,
    summary = DELETE_PAGE.title,
    description = DELETE_PAGE.rest_description(),
    tag = "pages",
    params(
        SlugParameter,
        ("If-Match" = Option<String>, Header, description = "An entity tag of the page to delete, in any representation; 412 if the page has changed since. `*` matches any tag."),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags in any representation; 412 if the page has one of them. `*` matches any tag, and so always gives 412."),
    ),
    responses(
        (status = 204, description = "Deleted."),
    ),
    security(("editKey" = []), ("pageToken" = ["post:delete"])),
)]
pub(super) async fn delete(
    State(http): State<Arc<AppState>>,
    SlugParam(slug): SlugParam,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    // Read, so that the connection can be used again, and ignored: a delete answers no 400 (specification §7).
    drop(RequestBody::of(&head.headers, body, |_| true).await);
    let (client, key, precondition) =
        (http.proxies.client(&head), credential::in_head(&head), precondition(&head.headers));
    let attempt = http.service.delete(client, &slug, &key, Ok(()), &precondition).await;
    respond(attempt, Endpoint::Api, &http, |()| StatusCode::NO_CONTENT.into_response())
}

/// With the `RateLimit` fields.
pub(super) fn respond<T>(
    attempt: Limited<T>,
    endpoint: Endpoint,
    http: &AppState,
    success: impl FnOnce(T) -> Response,
) -> Response {
    let mut response = match attempt.outcome {
        Ok(value) => success(value),
        Err(error) => http.failed_at(endpoint, &error),
    };
    if let Some((limited, decision)) = attempt.quota {
        let [limit, policy] = rate_limit_fields(limited, &decision);
        response.headers_mut().insert(RATE_LIMIT, limit);
        response.headers_mut().insert(RATE_LIMIT_POLICY, policy);
    }
    response
}

/// IETF draft-ietf-httpapi-ratelimit-headers.
fn rate_limit_fields(limited: LimitKind, decision: &Decision) -> [HeaderValue; 2] {
    let (name, quota) = (limited.name(), decision.quota);
    let (remaining, more_after) = (decision.remaining, whole_seconds_up(decision.more_after));
    let limit = format!(r#""{name}";r={remaining};t={more_after}"#);
    let policy = format!(r#""{name}";q={};w={}"#, quota.limit, quota.window.as_secs());
    [limit, policy].map(|field| HeaderValue::try_from(field).expect("it is ASCII"))
}

pub(super) fn json_tag(page: &PageHead, http: &AppState) -> HeaderValue {
    json_tag_in("json.", Coding::Identity, &http.about(page), http)
}

/// The tag changes with the version, which may add fields.
pub(super) fn json_tag_in(form: &str, coding: Coding, page: &PageMetadata<'_>, http: &AppState) -> HeaderValue {
    entity_tag(page, &[form, env!("CARGO_PKG_VERSION"), ".", &http.origin_tag], coding.name())
}

fn location(http: &AppState, page: &PageHead) -> HeaderValue {
    HeaderValue::try_from(format!("{}/api/pages/{}", http.base_url, page.slug)).expect("it is ASCII")
}
