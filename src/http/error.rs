//! Problems as HTTP answers.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

use super::conditional::REVALIDATE;
use crate::about;
use crate::domain::origin::Origin;
use crate::problem::{self, Code, Problem};
use crate::service::Failure;
use crate::wire::ErrorBody;

/// The answer to a request that `failure` ended. What failed inside is logged here, once.
pub(super) fn failure_response(failure: &Failure, base_url: &Origin) -> Response {
    problem::log(failure);
    let problem = Problem::from(failure);
    let mut response = problem_response(&problem);
    if let Some(challenge) = challenge(problem.code, base_url) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// `problem` as JSON with its status.
pub(super) fn problem_response(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(ErrorBody::new(problem.clone()))).into_response();
    // Around the router more is known of the request, and the body may be written anew.
    response.extensions_mut().insert(problem.clone());
    if matches!(problem.code, Code::NotFound | Code::Gone) {
        // A cache may keep these without being asked to, and a page may be published at any moment.
        response.headers_mut().insert(CACHE_CONTROL, REVALIDATE);
    }
    if let Some(seconds) = problem.retry_after {
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
        metadata = about::path::PROTECTED_RESOURCE,
        scope = about::scope(),
    );
    HeaderValue::try_from(challenge).ok()
}
