//! The operators' API, on the Unix socket alone ([`super::socket`]), for the operators' commands.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::acts::Act;
use super::import::Importer;
use super::{acts, backup, import, inspect, journal, pause, records};
use crate::http::error::{self, ApiError};
use crate::telemetry::logs::AUDIT;
use crate::telemetry::metrics::{Metrics, OperatorLabels};
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::creates_switch::CreatesSwitch;
use handbill_pages::ports::page_scan::PageScan;
use handbill_pages::ports::page_store::StoreError;
use handbill_pages::service::{Operators, PublishingPolicy, ServiceError};
use handbill_pages::values::takedown::operator_name;
use handbill_store_scylla::ScyllaStore;
use handbill_store_sqlite::SqliteStore;

pub struct AdminApi {
    pub operators: Operators,
    pub records: Arc<dyn PageScan>,
    pub importer: Importer,
    pub switch: Arc<dyn CreatesSwitch>,
    /// Changes take effect in this process at once.
    pub policy: PublishingPolicy,
    pub metrics: Arc<Metrics>,
    pub clock: SharedClock,
    pub store: ServedStore,
}

/// For what only one of the stores can do.
#[derive(Clone)]
pub enum ServedStore {
    Sqlite(Arc<SqliteStore>),
    Scylla(Arc<ScyllaStore>),
}

pub fn router(api: AdminApi) -> Router {
    let act = |act| move |State(api): State<Arc<AdminApi>>, body: Bytes| acts::act(api, body, act);
    Router::new()
        .route("/takedown", post(act(Act::TakeDown)))
        .route("/hide", post(act(Act::Hide)))
        .route("/show", post(act(Act::Show)))
        .route("/inspect", post(inspect::inspect))
        .route("/creates", put(pause::change))
        .route("/records", post(records::list))
        .route("/journal", get(journal::send))
        .route("/backup", get(backup::copy))
        .route("/import", post(import::receive).layer(DefaultBodyLimit::disable()))
        .with_state(Arc::new(api))
}

/// An operator's act for the log, without any page's text or key.
pub(super) struct LoggedAct<'a> {
    pub(super) action: &'static str,
    /// `None` for an act on the service.
    pub(super) slug: Option<&'a str>,
    pub(super) reason: Option<&'static str>,
    pub(super) by: &'a str,
    pub(super) outcome: &'static str,
}

impl AdminApi {
    /// No filter hides this line.
    pub(super) fn log_act(&self, act: &LoggedAct<'_>) {
        let LoggedAct { action, slug, reason, by, outcome } = *act;
        tracing::info!(target: AUDIT, audit = true, action, slug, reason, by, outcome, "an operator acted");
        self.count(action, outcome);
    }

    pub(super) fn count(&self, action: &'static str, outcome: &'static str) {
        self.metrics.operator_actions.get_or_create(&OperatorLabels { action, outcome }).inc();
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Refusal {
    #[serde(skip, default = "internal")]
    status: StatusCode,
    /// Also says what to do.
    pub message: String,
}

fn internal() -> StatusCode {
    StatusCode::INTERNAL_SERVER_ERROR
}

impl Refusal {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into() }
    }
}

/// Logs a failure. Unlike clients, the operator gets the store's reason, such as a full volume.
pub(super) fn failure(failure: &ServiceError) -> (StatusCode, String) {
    let ApiError { code, message, .. } = ApiError::from(failure);
    let status = StatusCode::from_u16(code.status()).unwrap_or_else(|_| internal());
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
        Self { status, message }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::from(ServiceError::from(error))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

/// Ignores the content type.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::invalid(format!("The body is not as expected: {error}.")))
}

pub(super) fn operator(by: &str) -> Result<String, Refusal> {
    operator_name(by)
        .map_err(|error| Refusal::invalid(format!("The name of the operator is not as expected: {error}.")))
}
