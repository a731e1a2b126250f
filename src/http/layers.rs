//! What every request passes, with or without a route.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use http::Method;
use http::request::Parts;

use super::cors;
use super::error::ApiError;
use super::error_response::Endpoint;
use super::finish::{Asked, Finish};
use super::listener::{Full, LargeAnswers};
use super::mcp_host::McpHost;
use super::request::client_addr::TrustedProxies;
use super::request::head;
use crate::telemetry::http::RequestTelemetry;
use handbill_pages::log_throttle::LogThrottle;
use handbill_pages::values::client::{Peer, private_network};

/// Shortest time between two warnings about a proxy. Anyone can send its header, so the warnings must not fill the log.
pub(super) const WARNING_PAUSE: Duration = Duration::from_hours(1);

pub(super) struct Layers {
    pub(super) telemetry: Arc<RequestTelemetry>,
    pub(super) proxies: TrustedProxies,
    pub(super) warnings: LogThrottle,
    pub(super) mcp_host: Option<McpHost>,
    pub(super) large_answers: LargeAnswers,
    pub(super) finish: Finish,
}

/// From the outside in: observe, add header fields, make room for a large answer, check the head, answer a preflight,
/// and turn a panic into 500.
pub(super) async fn around(State(layers): State<Arc<Layers>>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let (asked, is_safe) = (Asked::of(&head.uri, &head.headers), head.method.is_safe());
    let endpoint = asked.endpoint;
    let observed = layers.telemetry.begin(&mut head);
    layers.warn_of_proxy(&head);
    let is_preflight = head.method == Method::OPTIONS && endpoint != Endpoint::Tools;
    let response = match layers.check(&head) {
        Err(error) => error.at(endpoint),
        Ok(()) if is_preflight => cors::of_api(Request::from_parts(head, body)).await,
        Ok(()) => {
            let answering = AssertUnwindSafe(next.run(Request::from_parts(head, body))).catch_unwind();
            observed.run(answering).await.unwrap_or_else(|_panic| {
                // The panic hook has logged the place.
                tracing::error!("a handler panicked");
                ApiError::internal().at(endpoint)
            })
        }
    };
    let mut response = layers.large_answers.admit(response).unwrap_or_else(|Full| {
        let error = if is_safe { ApiError::no_room() } else { ApiError::no_room_to_answer() };
        error.at(endpoint)
    });
    layers.finish.complete(asked, &mut response);
    observed.answered(&mut response);
    response
}

impl Layers {
    fn check(&self, head: &Parts) -> Result<(), ApiError> {
        head::check(head)?;
        self.mcp_host.as_ref().and_then(|host| host.refuse(head)).map_or(Ok(()), Err)
    }

    /// Counts a request with an `X-Forwarded-For` header from a peer that is not trusted, and sometimes logs which option to set:
    /// behind a proxy that is missing in the settings, all clients share one rate limit.
    fn warn_of_proxy(&self, head: &Parts) {
        let Some(&Peer(peer)) = head.extensions.get::<Peer>() else { return };
        if !self.proxies.ignores(peer.ip(), &head.headers) {
            return;
        }
        self.telemetry.metrics.untrusted_forwarded.inc();
        if self.warnings.allow(self.telemetry.clock.monotonic()) {
            // A person's address must not be logged. The network of a proxy is what the option needs.
            let peer_network = private_network(peer.ip()).map(tracing::field::display);
            tracing::warn!(
                peer_network,
                "X-Forwarded-For was ignored, because its sender is not a trusted proxy: if it is a proxy of \
                 yours, add its network to --trusted-proxies, or all its clients share one rate limit"
            );
        }
    }
}
