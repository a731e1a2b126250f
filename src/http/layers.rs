//! What every request passes. Inside, around each route: the request is observed, its head is checked, a panic becomes
//! 500, and a large answer needs room. Outside, around the router: [`Finish`] sets what all answers have in common.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use http::request::Parts;

use super::error::ApiError;
use super::error_response::{error_response, internal_error};
use super::finish::{Asked, Finish};
use super::forwarded_warning::ForwardedWarning;
use super::listener::{Full, LargeAnswers};
use super::mcp_host::McpHost;
use super::request::head;
use crate::telemetry::http::{ErrorName, NamedRoute, RequestTelemetry};

pub(super) struct Layers {
    pub(super) telemetry: Arc<RequestTelemetry>,
    pub(super) warning: ForwardedWarning,
    pub(super) mcp_host: Option<McpHost>,
    pub(super) large_answers: LargeAnswers,
}

/// Around every route, and around the answer to a request without one.
pub(super) async fn observe(State(layers): State<Arc<Layers>>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let is_safe = head.method.is_safe();
    let route = head.extensions.get::<MatchedPath>().map(|route| Arc::new(NamedRoute::new(route.as_str())));
    let observed = layers.telemetry.begin(&mut head, route);
    layers.warning.check(&head);
    let response = match layers.check(&head) {
        Ok(()) => {
            let answering = AssertUnwindSafe(next.run(Request::from_parts(head, body))).catch_unwind();
            observed.run(answering).await.unwrap_or_else(internal_error)
        }
        Err(error) => error_response(error),
    };
    let mut response = layers.large_answers.admit(response).unwrap_or_else(|Full| {
        error_response(if is_safe { ApiError::no_room() } else { ApiError::no_room_to_answer() })
    });
    if let Some(error) = response.extensions().get::<ApiError>() {
        let name = ErrorName { code: error.code.as_str(), refused_by: error.refused_by };
        response.extensions_mut().insert(name);
    }
    observed.answered(&mut response);
    response
}

/// Around the router, which adds `Allow` to a 405.
pub(super) async fn complete(State(finish): State<Arc<Finish>>, request: Request, next: Next) -> Response {
    let asked = Asked::of(request.uri(), request.headers());
    finish.complete(asked, next.run(request).await)
}

impl Layers {
    fn check(&self, head: &Parts) -> Result<(), ApiError> {
        head::check(head)?;
        self.mcp_host.as_ref().and_then(|host| host.refuse(head)).map_or(Ok(()), Err)
    }
}
