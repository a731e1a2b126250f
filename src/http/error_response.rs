//! Errors as HTTP responses.

use std::any::Any;

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode, Uri};

use super::etag::REVALIDATE;
use super::state::Http;
use crate::http::error::{self, ApiError, Code};
use crate::http::metadata;
use crate::http::request::credential::query_shows_key;
use handbill_core::domain::oauth;
use handbill_core::domain::origin::Origin;
use handbill_core::service::ServiceError;

/// The response to a request that failed with `error`. An internal cause is logged here, once.
pub(super) fn service_error_response(error: &ServiceError, base_url: &Origin) -> Response {
    error::log(error);
    let error = ApiError::from(error);
    let challenge = challenge(error.code, base_url);
    let mut response = error_response(error);
    if let Some(challenge) = challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The response for `error`, still without a body. [`super::finish`] writes the body, because its
/// form depends on the path and on the methods that the route takes.
pub(super) fn error_response(error: ApiError) -> Response {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = status.into_response();
    if matches!(error.code, Code::NotFound | Code::Gone | Code::MethodNotAllowed) {
        // A cache may keep these without being asked to, but a page may be published at any moment.
        response.headers_mut().insert(CACHE_CONTROL, REVALIDATE);
    }
    if error.code == Code::KeyInQuery {
        // A copy in a cache would have the key in its name.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response.extensions_mut().insert(error);
    response
}

/// Whether the address of a request shows an edit key, which must not be of use there (contract, decision 2).
pub(super) fn shows_key(uri: &Uri) -> bool {
    uri.query().is_some_and(query_shows_key)
}

/// The `response` to a read of `uri`, or a 401 in its place if `uri` shows a key. Errors stay as they are: whether the
/// page exists comes first.
pub(super) fn unless_key_shown(uri: &Uri, http: &Http, response: Response) -> Response {
    let is_read = response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED;
    if is_read && shows_key(uri) { service_error_response(&ServiceError::KeyInQuery, &http.base_url) } else { response }
}

/// The response after a panic. The panic hook has already logged the place of the panic.
pub(super) fn internal_error(_panic: Box<dyn Any + Send>) -> Response {
    tracing::error!("a handler panicked");
    error_response(ApiError::internal())
}

/// The challenge of a 401 (RFC 6750 §3), with the address of its description (RFC 9728 §5.1). The token endpoint asks for
/// client credentials instead (RFC 6749 §5.2).
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
