//! The operators' API, on the Unix socket alone ([`super::socket`]), for the operators' commands.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use serde::de::DeserializeOwned;
use tokio_util::task::TaskTracker;

use super::acts::Action;
use super::import::Importer;
use super::{acts, backup, import, pause, records};
use crate::http::error::{self, ApiError};
use crate::telemetry::logs::{AUDIT, AuditLog};
use crate::telemetry::metrics::{Metrics, OperatorLabels};
use handbill_pages::ports::operated_store::OperatedStore;
use handbill_pages::ports::page_store::StoreError;
use handbill_pages::service::{Moderation, PublishingPolicy, ServiceError};
use handbill_pages::values::slug::Slug;
use handbill_pages::values::takedown::operator_name;

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

pub fn router(api: AdminApi) -> Router {
    let act = |action| move |State(api): State<Arc<AdminApi>>, body: Bytes| acts::act(api, body, action);
    let changing = Router::new()
        .route("/takedown", post(act(Action::TakeDown)))
        .route("/hide", post(act(Action::Hide)))
        .route("/show", post(act(Action::Show)))
        .route("/creates", post(pause::change))
        .route("/import", post(import::receive).layer(DefaultBodyLimit::disable()))
        .route_layer(middleware::from_fn_with_state(api.acts.clone(), outlive_command));
    Router::new()
        .route("/inspect", post(records::inspect))
        .route("/records", post(records::list))
        .route("/journal", post(backup::send_journal))
        .route("/backup", post(backup::send_copy))
        .route("/backup/whole", post(backup::note_whole))
        .merge(changing)
        .with_state(Arc::new(api))
}

/// Completes a request whose command has gone: what it did to the store is also in the log.
async fn outlive_command(State(acts): State<TaskTracker>, request: Request, next: Next) -> Response {
    acts.spawn(next.run(request)).await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
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
        let line = move || {
            let slug = slug.as_ref().map(Slug::as_str);
            tracing::info!(target: AUDIT, audit = true, action, slug, reason, by, outcome, "an operator acted");
        };
        self.audit.write(line).await;
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
    let ApiError { code, message, .. } = ApiError::from(failure);
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
