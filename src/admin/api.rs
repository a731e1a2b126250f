//! What the operators' routes share.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::de::DeserializeOwned;
use tokio_util::task::TaskTracker;

use crate::http::error::{self, ApiError, Interface};
use crate::telemetry::logs::{AUDIT, AuditLog};
use crate::telemetry::metrics::{Metrics, OperatorLabels};
use handbill_pages::ports::{operated_store::OperatedStore, page_store::StoreError};
use handbill_pages::service::{Importer, Moderation, PublishingPolicy, ServiceError};
use handbill_pages::values::{slug::Slug, takedown::operator_name};

pub struct AdminApi {
    pub operators: Moderation,
    pub importer: Importer,
    /// Changes take effect in this process at once.
    pub policy: PublishingPolicy,
    pub metrics: Arc<Metrics>,
    pub store: Arc<dyn OperatedStore>,
    pub audit: AuditLog,
    /// What changes the store, until it is done.
    pub acts: TaskTracker,
}

impl AdminApi {
    /// Counts an act, and logs it in a line that no filter hides, and that has neither text nor key.
    pub(super) async fn log_act(
        &self,
        action: &'static str,
        slug: Option<Slug>,
        reason: Option<&'static str>,
        by: String,
        outcome: &'static str,
    ) {
        self.count(action, outcome);
        let line = self.audit.write(move || {
            let slug = slug.as_ref().map(Slug::as_str);
            tracing::info!(target: AUDIT, audit = true, action, slug, reason, by, outcome, "an operator acted");
        });
        line.await;
    }

    pub(super) fn count(&self, action: &'static str, outcome: &'static str) {
        self.metrics.operator_actions.get_or_create(&OperatorLabels { action, outcome }).inc();
    }
}

/// An error for the operator, which says what to do.
#[derive(Debug)]
pub(super) struct Refusal(StatusCode, String);

impl Refusal {
    /// The store cannot do it now.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, message.into())
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, message.into())
    }
}

/// Logs a failure. Unlike clients, the operator gets the store's reason, such as a full volume.
pub(super) fn failure(failure: &ServiceError) -> (StatusCode, String) {
    let ApiError { code, message, .. } = ApiError::of(failure, Interface::Api);
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match failure {
        ServiceError::Store(error) => {
            tracing::error!(error = error.causes(), "the store failed an operator");
            match error {
                StoreError::Unavailable(reason) => (status, format!("{message} The reason: {reason}.")),
                _ => (status, message),
            }
        }
        other => {
            error::log(other);
            (status, message)
        }
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Self {
        let (status, message) = failure(&error);
        Self(status, message)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::from(ServiceError::from(error))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

/// Parses a body, whatever its content type.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::invalid(format!("The body is not as expected: {error}.")))
}

pub(super) fn operator(by: &str) -> Result<String, Refusal> {
    operator_name(by)
        .map_err(|error| Refusal::invalid(format!("The name of the operator is not as expected: {error}.")))
}
