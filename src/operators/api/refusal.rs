//! The answer to an operator's request that was not done.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use serde::de::DeserializeOwned;

use super::types::ErrorBody;
use crate::api::error::{self, ApiError};
use handbill_core::domain::takedown::operator_name;
use handbill_core::ports::page_store::StoreError;
use handbill_core::service::ServiceError;

/// Why an operator's request was not done.
#[derive(Debug)]
pub(super) struct OperatorsRefusal {
    status: StatusCode,
    body: ErrorBody,
}

impl OperatorsRefusal {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, body: ErrorBody { error: code.to_owned(), message: message.into() } }
    }

    pub(super) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(super) fn unauthorized() -> Self {
        let advice = "This is not the token of the process: send that of its --admin-token-file, as `Authorization: Bearer TOKEN`. Under systemd restart the service after you have replaced the token.";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", advice)
    }

    /// The request does not fit.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(super) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something went wrong; the log says what.")
    }
}

/// Logs a failure of what an operator asked for, each time.
pub(super) fn log(failure: &ServiceError) {
    match failure {
        ServiceError::Store(error) => tracing::error!(error = error.causes(), "the store failed an operator"),
        other => error::log(other),
    }
}

/// The message about a failure. It has the reason of the store, such as a full volume, which clients are not told.
pub(super) fn message(failure: &ServiceError, error: ApiError) -> String {
    match failure {
        ServiceError::Store(StoreError::Unavailable(reason)) => format!("{} The reason: {reason}.", error.message),
        _ => error.message,
    }
}

impl From<ServiceError> for OperatorsRefusal {
    fn from(failure: ServiceError) -> Self {
        log(&failure);
        let error = ApiError::from(&failure);
        let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, error.code.as_str(), message(&failure, error))
    }
}

impl From<StoreError> for OperatorsRefusal {
    fn from(failure: StoreError) -> Self {
        Self::from(ServiceError::from(failure))
    }
}

impl IntoResponse for OperatorsRefusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"operators\""));
        }
        response
    }
}

/// The value of a JSON body, whatever its content type.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, OperatorsRefusal> {
    serde_json::from_slice(body)
        .map_err(|error| OperatorsRefusal::invalid(format!("The body is not as expected: {error}.")))
}

/// The name of the operator who asks, which the field `by` has.
pub(super) fn operator(by: &str) -> Result<String, OperatorsRefusal> {
    operator_name(by).map_err(|error| OperatorsRefusal::invalid(format!("The field `by` is not as expected: {error}.")))
}

/// The answer to a method that the route does not take. Axum adds `Allow`.
pub(super) async fn method_not_allowed() -> OperatorsRefusal {
    OperatorsRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "The header `Allow` lists the methods.")
}
