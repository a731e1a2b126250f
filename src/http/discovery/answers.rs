//! The error answers in the OpenAPI document, from real errors of the service.

use std::time::Duration;

use serde_json::{Value, json};
use utoipa::PartialSchema;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, Header, Ref, Response, ResponseBuilder};

use crate::http::error::{ApiError, Code};
use crate::http::types::{ErrorBody, TokenErrorBody};
use handbill_pages::ports::rate_limiter::LimitKind;
use handbill_pages::service::{BodyError, BodyReadError, FormError, ServiceError, TokenError};
use handbill_pages::values::content::{ContentError, MAX_BYTES};
use handbill_pages::values::quota::{Decision, Quota};
use handbill_pages::values::slug::Reserved;

/// A status's description, which names all errors that share it, and one of them.
type Example = (&'static str, ApiError);

pub(super) fn describe_page_errors(operation: &mut Operation, needs_key: bool, limit: Option<LimitKind>) {
    let mut answers = common();
    if operation.request_body.is_some() {
        answers.extend(body(limit == Some(LimitKind::Create)));
    } else {
        answers.push(("The request head is invalid (`invalid_request`).", ApiError::no_host()));
    }
    if operation.parameters.is_some() {
        answers.extend(no_page());
    }
    if needs_key {
        answers.extend(not_changed());
    } else {
        let error = ApiError::from(&ServiceError::KeyInQuery);
        answers.push(("An edit key is in the query string (`key_in_query`).", error));
    }
    answers.extend(limit.map(rate_limited));
    add(operation, answers, "Error", "A `Bearer` challenge with `resource_metadata`.", |error| {
        json!(ErrorBody::new(error))
    });
}

pub(super) fn describe_token_errors(operation: &mut Operation) {
    let mut answers = common();
    answers.extend(token());
    answers.push(rate_limited(LimitKind::Token));
    add(operation, answers, "TokenError", "A `Basic` challenge.", |error| json!(TokenErrorBody::new(error)));
}

/// Errors of every operation, from the layers or a store.
fn common() -> Vec<Example> {
    vec![
        ("The address and headers are too large (`headers_too_large`).", ApiError::headers_too_large()),
        ("Handbill is at fault (`internal`).", ApiError::internal()),
        ("A store is unavailable (`unavailable`).", ApiError::from(&ServiceError::DeadlinePassed)),
    ]
}

fn body(of_create: bool) -> [Example; 3] {
    let error = |error| ApiError::from(&ServiceError::Body(error));
    let invalid = if of_create {
        "Invalid body (`invalid_body`), empty content (`empty_content`), or an invalid request head (`invalid_request`). After the limit, and so with quota: content that the operators do not publish (`content_refused`), a key that is in use (`key_in_use`)."
    } else {
        "Invalid body (`invalid_body`), empty content (`empty_content`), content that the operators do not publish (`content_refused`), or an invalid request head (`invalid_request`)."
    };
    [
        (invalid, error(BodyError::Content(ContentError::Empty))),
        ("The body did not arrive in time (`timeout`).", error(BodyError::Read(BodyReadError::TimedOut))),
        (
            "The content (`content_too_large`) or the body (`body_too_large`) is too large.",
            error(BodyError::Content(ContentError::TooLarge { bytes: MAX_BYTES + 1 })),
        ),
    ]
}

fn no_page() -> [Example; 2] {
    [
        ("No page ever had this slug (`not_found`).", ApiError::from(&ServiceError::NotFound)),
        ("The page was deleted (`gone`).", ApiError::from(&ServiceError::Gone)),
    ]
}

fn not_changed() -> [Example; 2] {
    [
        (
            "No key (`missing_key`), a wrong one (`invalid_key`), or one in the query string (`key_in_query`).",
            ApiError::from(&ServiceError::InvalidKey),
        ),
        (
            "The page has changed since the state in `If-Match`, or is in one that `If-None-Match` names (`precondition_failed`).",
            ApiError::from(&ServiceError::PreconditionFailed),
        ),
    ]
}

fn token() -> [Example; 4] {
    let error = |error| ApiError::from(&ServiceError::Token(error));
    [
        (
            "The form cannot be read (`invalid_request`), asks for another grant (`unsupported_grant_type`) or for an unknown scope (`invalid_scope`).",
            error(TokenError::Form(FormError::NoGrantType)),
        ),
        ("The client credentials are missing or wrong (`invalid_client`).", error(TokenError::WrongClient)),
        (
            "The body did not arrive in time (`timeout`).",
            error(TokenError::Form(FormError::Read(BodyReadError::TimedOut))),
        ),
        (
            "The body is too large (`body_too_large`).",
            error(TokenError::Form(FormError::Read(BodyReadError::TooLarge))),
        ),
    ]
}

/// The specification's default limit (§8), used up half an hour ago.
fn rate_limited(limited: LimitKind) -> Example {
    let limit = if limited == LimitKind::Create { 10 } else { 60 };
    let quota = Quota { limit, window: Duration::from_hours(1) };
    let more_after = Duration::from_mins(30);
    let decision = Decision { admitted: false, quota, remaining: 0, more_after, slug: Reserved::NotAsked };
    ("Rate limited (`rate_limited`).", ApiError::from(&ServiceError::RateLimited(limited, decision)))
}

fn add(operation: &mut Operation, answers: Vec<Example>, schema: &str, challenge: &str, body: fn(ApiError) -> Value) {
    for (description, error) in answers {
        let status = error.code.status().to_string();
        operation.responses.responses.insert(status, response(description, error, schema, challenge, body).into());
    }
}

fn response(
    description: &str,
    error: ApiError,
    schema: &str,
    challenge: &str,
    body: fn(ApiError) -> Value,
) -> Response {
    let mut response = ResponseBuilder::new().description(description);
    if error.code.status() == 401 {
        response = response.header("WWW-Authenticate", header::<String>(challenge));
    }
    if error.retry_after.is_some() {
        let what = match error.code {
            Code::RateLimited => "Whole seconds after which the next request succeeds.",
            _ => "Whole seconds after which trying again makes sense.",
        };
        response = response.header("Retry-After", header::<u64>(what));
    }
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).example(Some(body(error)));
    response.content("application/json", content.build()).build()
}

pub(super) fn header<T: PartialSchema>(description: impl Into<String>) -> Header {
    let mut header = Header::new(T::schema());
    header.description = Some(description.into());
    header
}
