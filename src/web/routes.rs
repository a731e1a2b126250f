//! The routes that the OpenAPI document describes, with their descriptions.

use std::sync::Arc;

use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::state::Http;
use super::{pages, token};

/// The routes of the REST API, which add their descriptions to `document`.
pub(super) fn api(document: OpenApi) -> OpenApiRouter<Arc<Http>> {
    OpenApiRouter::with_openapi(document)
        .routes(routes!(pages::create))
        .routes(routes!(pages::read, pages::update, pages::delete))
        .routes(routes!(token::token))
}
