//! Problems as HTTP answers.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

use super::etag::REVALIDATE;
use crate::api::error::{self, ApiError, Code};
use crate::api::metadata;
use crate::api::types::ErrorBody;
use crate::domain::oauth;
use crate::domain::origin::Origin;
use crate::service::ServiceError;

/// The answer to a request that `failure` ended. What failed inside is logged here, once.
pub(super) fn service_error_response(error: &ServiceError, base_url: &Origin) -> Response {
    error::log(error);
    let error = ApiError::from(error);
    let mut response = error_response(&error);
    if let Some(challenge) = challenge(error.code, base_url) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// `problem` as JSON with its status.
pub(super) fn error_response(error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(ErrorBody::new(error.clone()))).into_response();
    // Around the router more is known of the request, and the body may be written anew.
    response.extensions_mut().insert(error.clone());
    if matches!(error.code, Code::NotFound | Code::Gone) {
        // A cache may keep these without being asked to, and a page may be published at any moment.
        response.headers_mut().insert(CACHE_CONTROL, REVALIDATE);
    }
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// What a 401 asks for (RFC 6750 §3), and where to learn more (RFC 9728 §5.1). The token endpoint asks for a client's
/// credentials instead (RFC 6749 §5.2).
fn challenge(code: Code, base_url: &Origin) -> Option<HeaderValue> {
    let error = match code {
        Code::MissingKey | Code::KeyInQuery => "",
        Code::InvalidKey => r#", error="invalid_token", error_description="This is not the edit key of this page""#,
        Code::InvalidClient => return Some(HeaderValue::from_static(r#"Basic realm="handbill", charset="UTF-8""#)),
        _ => return None,
    };
    let challenge = format!(
        r#"Bearer realm="handbill", resource_metadata="{base_url}{metadata}", scope="{scope}"{error}"#,
        metadata = metadata::path::PROTECTED_RESOURCE,
        scope = oauth::scope(),
    );
    HeaderValue::try_from(challenge).ok()
}
