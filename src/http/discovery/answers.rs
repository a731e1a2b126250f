//! The failing answers that operations on pages share, as the OpenAPI document describes them.
//!
//! They are descriptions only: what is really answered comes from `problem`, and the tests hold each answer that
//! they see against the document.

use utoipa::IntoResponses;

use crate::api::types::{ErrorBody, TokenErrorBody};

/// The body was read and is not a valid request.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only what is derived from it is used")]
pub(in crate::http) enum BadBody {
    /// Invalid body (`invalid_body`), empty content (`empty_content`), or a head that must not be served (`invalid_request`).
    #[response(status = 400, example = json!({
        "error": "empty_content",
        "message": "The field `content` is empty. Send at least one character of Markdown, or leave the field out of an update to keep what is there.",
    }))]
    Invalid(ErrorBody),
    /// The content (`content_too_large`) or the body (`body_too_large`) is too large.
    #[response(status = 413, example = json!({
        "error": "content_too_large",
        "message": "The field `content` is too large: the content has 102401 bytes, 102400 are allowed, counted in UTF-8. Shorten it to 102400 bytes or split it over several pages.",
    }))]
    TooLarge(ErrorBody),
}

/// There is no page under the slug.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only what is derived from it is used")]
pub(in crate::http) enum NoPage {
    /// No page ever had this slug (`not_found`).
    #[response(status = 404, example = json!({
        "error": "not_found",
        "message": "No page has this address. Check the slug: it is the last part of the `url` that was given out when the page was created.",
    }))]
    NotFound(ErrorBody),
    /// The page was deleted (`gone`).
    #[response(status = 410, example = json!({
        "error": "gone",
        "message": "This page was deleted. It cannot come back, and its address will not be used again; publish a new page instead.",
    }))]
    Gone(ErrorBody),
}

/// The page is there, and the caller may not change it as it stands.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only what is derived from it is used")]
pub(in crate::http) enum NotChanged {
    /// No key (`missing_key`), a wrong one (`invalid_key`), or one in the query string (`key_in_query`).
    #[response(
        status = 401,
        headers(("WWW-Authenticate" = String, description = "A `Bearer` challenge with `resource_metadata`.")),
        example = json!({
            "error": "invalid_key",
            "message": "This is not the edit key of this page. Use the one that was shown when this very page was created; a lost key cannot be recovered. `/.well-known/oauth-protected-resource` describes how keys are presented.",
        })
    )]
    Unauthorized(ErrorBody),
    /// The page has changed since the state in `If-Match`, or is in one that `If-None-Match` names (`precondition_failed`).
    #[response(status = 412, example = json!({
        "error": "precondition_failed",
        "message": "The page has changed since the version that `If-Match` names. Nothing was changed: read the page again, apply your change to it and send its new `ETag`.",
    }))]
    Stale(ErrorBody),
}

/// The client is over its limit.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only what is derived from it is used")]
pub(in crate::http) enum RateLimited {
    /// Rate limited (`rate_limited`).
    #[response(
        status = 429,
        headers(
            ("Retry-After" = u64, description = "Whole seconds after which the next request succeeds."),
        ),
        example = json!({
            "error": "rate_limited",
            "message": "At most 10 such requests are allowed in any 3600 seconds. Nothing was changed: try again after 1800 seconds.",
        })
    )]
    TooMany(ErrorBody),
}

/// The token endpoint gives no token.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only what is derived from it is used")]
pub(in crate::http) enum BadToken {
    /// The form cannot be read (`invalid_request`), asks for another grant (`unsupported_grant_type`) or for more than
    /// there is (`invalid_scope`).
    #[response(status = 400, example = json!({
        "error": "invalid_request",
        "error_description": "The field `grant_type` is missing. Send `grant_type=client_credentials`.",
        "message": "The field `grant_type` is missing. Send `grant_type=client_credentials`.",
    }))]
    Invalid(TokenErrorBody),
    /// The client credentials are missing or wrong (`invalid_client`).
    #[response(
        status = 401,
        headers(("WWW-Authenticate" = String, description = "A `Basic` challenge.")),
        example = json!({
            "error": "invalid_client",
            "error_description": "No page has these client credentials. Check that `client_id` is the slug of a page that exists and `client_secret` its own edit key; a lost key cannot be recovered. `/.well-known/oauth-authorization-server` describes it.",
            "message": "No page has these client credentials. Check that `client_id` is the slug of a page that exists and `client_secret` its own edit key; a lost key cannot be recovered. `/.well-known/oauth-authorization-server` describes it.",
        })
    )]
    WrongClient(TokenErrorBody),
    /// The body is too large (`body_too_large`).
    #[response(status = 413, example = json!({
        "error": "body_too_large",
        "error_description": "The request body may have at most 131072 bytes. Send `grant_type`, `client_id` and `client_secret` only.",
        "message": "The request body may have at most 131072 bytes. Send `grant_type`, `client_id` and `client_secret` only.",
    }))]
    TooLarge(TokenErrorBody),
    /// Rate limited (`rate_limited`).
    #[response(
        status = 429,
        headers(
            ("Retry-After" = u64, description = "Whole seconds after which the next request succeeds."),
        ),
        example = json!({
            "error": "rate_limited",
            "error_description": "At most 60 such requests are allowed in any 3600 seconds. Nothing was changed: try again after 1800 seconds.",
            "message": "At most 60 such requests are allowed in any 3600 seconds. Nothing was changed: try again after 1800 seconds.",
        })
    )]
    TooMany(TokenErrorBody),
}
