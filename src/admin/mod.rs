//! What operators do: the API on a Unix socket, the blocklist, and the port for metrics and probes.
//!
//! The operations on pages are in [`handbill_pages::service::Moderation`], with the service's time limits.

pub mod acts;
pub mod api;
pub mod backup;
pub mod blocklist;
pub mod import;
pub mod pause;
pub mod probes;
pub mod records;
pub mod socket;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use http::StatusCode;
use tokio_util::task::TaskTracker;

use self::{acts::Action, api::AdminApi};

/// The routes of the operators' API, on the Unix [`socket`] alone, for the operators' commands.
pub fn router(api: Arc<AdminApi>) -> Router {
    let changing = Router::new()
        .route("/takedown", post(|api, body| acts::act(api, body, Action::TakeDown)))
        .route("/hide", post(|api, body| acts::act(api, body, Action::Hide)))
        .route("/show", post(|api, body| acts::act(api, body, Action::Show)))
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
        .with_state(api)
}

/// Completes a request whose command has gone: what it did to the store is also in the log.
async fn outlive_command(State(acts): State<TaskTracker>, request: Request, next: Next) -> Response {
    acts.spawn(next.run(request)).await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
