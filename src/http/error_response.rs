//! Turns errors into HTTP responses, except for people's pages.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode, Uri};
use rmcp::{ErrorData, model::JsonRpcError};
use serde_json::json;

use super::etag::{NO_STORE, REVALIDATE};
use super::state::AppState;
use crate::http::error::{self, ApiError, Code, Interface};
use crate::http::types::{ErrorBody, JSON, TokenErrorBody};
use crate::http::{metadata, request::credential::query_holds_key};
use crate::telemetry::http::ErrorName;
use handbill_pages::service::{ServiceError, TokenError, oauth};
use handbill_pages::values::origin::Origin;

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.at(Interface::Api)
    }
}

impl ApiError {
    pub(crate) fn at(self, interface: Interface) -> Response {
        let Self { code, message, retry_after, refused_by } = self;
        let error = code.as_str();
        let name = ErrorName { code: error, refused_by };
        let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = match interface {
            Interface::Token => {
                let error_description = message.clone();
                serde_json::to_vec(&TokenErrorBody { error, error_description, message })
            }
            Interface::Tools => serde_json::to_vec(&json_rpc_error(code, message)),
            Interface::Site | Interface::Api => serde_json::to_vec(&ErrorBody { error, message }),
        };
        let mut body = body.expect("an error is made of strings");
        // A shell writes its prompt behind it.
        body.push(b'\n');
        let mut response = (status, [(CONTENT_TYPE, JSON)], body).into_response();
        let headers = response.headers_mut();
        if matches!(code, Code::NotFound | Code::Gone | Code::MethodNotAllowed) {
            // A cache may keep these unasked, but a page may appear at any moment.
            headers.insert(CACHE_CONTROL, REVALIDATE);
        }
        if matches!(code, Code::KeyInQuery | Code::KeyInQueryOfPost) {
            // A cache's copy would have the key in its name.
            headers.insert(CACHE_CONTROL, NO_STORE);
        }
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(name);
        response
    }
}

/// The error as JSON-RPC, with REST's code and status in `data`.
fn json_rpc_error(code: Code, message: String) -> JsonRpcError {
    let data = json!({"error": code.as_str(), "status": code.status()});
    JsonRpcError::new(None, ErrorData::invalid_request(message, Some(data)))
}

impl AppState {
    /// Also logs an internal cause.
    pub(super) fn failed(&self, error: &ServiceError) -> Response {
        error::log(error);
        self.refused(ApiError::of(error, Interface::Api), Interface::Api)
    }

    /// Also logs an internal cause.
    pub(super) fn failed_token(&self, error: &TokenError) -> Response {
        if let TokenError::Service(error) = error {
            error::log(error);
        }
        self.refused(error.into(), Interface::Token)
    }

    fn refused(&self, error: ApiError, interface: Interface) -> Response {
        let challenge = challenge(error.code, &self.base_url);
        let mut response = error.at(interface);
        response.headers_mut().extend(challenge.map(|challenge| (WWW_AUTHENTICATE, challenge)));
        response
    }

    /// For an address that holds a key.
    pub(super) fn key_in_uri(&self, method: &Method) -> Response {
        let error = ServiceError::KeyInQuery;
        if *method == Method::POST {
            ApiError { code: Code::KeyInQueryOfPost, ..ApiError::of(&error, Interface::Api) }.into_response()
        } else {
            self.failed(&error)
        }
    }
}

/// Such an address must not work (contract, decision 2).
pub(super) fn uri_holds_key(uri: &Uri) -> bool {
    uri.query().is_some_and(query_holds_key)
}

/// Replaces a successful or redirected read by 401 if `uri` holds a key. Errors stay: whether the page exists comes first.
pub(super) fn unless_uri_holds_key(uri: &Uri, app: &AppState, response: Response) -> Response {
    let is_read = response.status().is_success() || response.status().is_redirection();
    if is_read && uri_holds_key(uri) { app.failed(&ServiceError::KeyInQuery) } else { response }
}

/// RFC 6750 §3, with the address of RFC 9728 §5.1. The token endpoint asks for client credentials (RFC 6749 §5.2).
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
