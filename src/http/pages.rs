//! The REST operations on pages (spec §4.1 to §4.4).

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::{Json, extract::State};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION};
use http::{HeaderValue, Method, StatusCode, Uri};
use utoipa::IntoParams;

use super::answer::{json_tag, respond};
use super::etag::{NO_STORE, REVALIDATE};
use super::extract::{Asked, ClientAddr, Conditions, Presented, SlugParam};
use super::{error_response::uri_holds_key, reads, representation::Representation, state::AppState};
use crate::http::metadata::{CREATE_PAGE, DELETE_PAGE, GET_PAGE, UPDATE_PAGE};
use crate::http::types::{CreateBody, CreatedBody, Included, JSON, PageBody, ReadBody, UpdateBody};
use crate::http::{request::body::RequestBody, request::part};
use handbill_pages::service::{LateBody, ServiceError};
use handbill_pages::values::{head::PageHead, slug::Slug};

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
pub(super) async fn create(
    State(app): State<Arc<AppState>>,
    ClientAddr(client): ClientAddr,
    uri: Uri,
    body: RequestBody,
) -> Response {
    if uri_holds_key(&uri) {
        return app.key_in_uri(&Method::POST);
    }
    let attempt = app.service.create(client, body.json::<CreateBody>().await).await;
    respond(attempt, &app, |created| {
        let headers = [
            (LOCATION, location(&app, &created.page.head)),
            (ETAG, json_tag(&created.page.head, &app)),
            // The response shows the edit key.
            (CACHE_CONTROL, NO_STORE),
        ];
        (StatusCode::CREATED, headers, Json(CreatedBody::new(&created, &app.base_url))).into_response()
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
pub(super) async fn read(State(app): State<Arc<AppState>>, SlugParam(slug): SlugParam, asked: Asked) -> Response {
    let Ok(slug) = Slug::parse(&slug) else { return app.failed(&ServiceError::NotFound) };
    match asked.uri.query().and_then(part::in_query) {
        Some(part) => reads::part(&slug, part, &app, &asked).await,
        None => Representation::Json.read(&slug, &app, &asked).await,
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
    State(app): State<Arc<AppState>>,
    SlugParam(slug): SlugParam,
    ClientAddr(client): ClientAddr,
    Presented(key): Presented,
    Conditions(precondition): Conditions,
    body: RequestBody,
) -> Response {
    let body = LateBody { is_awaited: body.is_awaited(), fields: body.json::<UpdateBody>() };
    let attempt = app.service.update(client, &slug, &key, body, &precondition).await;
    respond(attempt, &app, |page| {
        let fields = [(CACHE_CONTROL, REVALIDATE), (ETAG, json_tag(&page.head, &app)), (CONTENT_TYPE, JSON)];
        let mut response = (fields, PageBody::json(&page, &app.base_url, Included::ALL)).into_response();
        app.about(&page.head).mark_noindex(response.headers_mut());
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
    State(app): State<Arc<AppState>>,
    SlugParam(slug): SlugParam,
    ClientAddr(client): ClientAddr,
    Presented(key): Presented,
    Conditions(precondition): Conditions,
    // A delete answers no 400 (specification §7). It is read, so that the connection can be used again.
    _: RequestBody,
) -> Response {
    let attempt = app.service.delete(client, &slug, &key, Ok(()), &precondition).await;
    respond(attempt, &app, |()| StatusCode::NO_CONTENT.into_response())
}

fn location(app: &AppState, page: &PageHead) -> HeaderValue {
    HeaderValue::try_from(format!("{}/api/pages/{}", app.base_url, page.slug)).expect("it is ASCII")
}
