//! What every request passes, with or without a route, and the header fields that all responses share.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, LINK, ORIGIN,
    PRAGMA, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderValue, Method};

use super::error::ApiError;
use super::error_response::Endpoint;
use super::etag::NO_STORE;
use super::listener::{Full, LargeAnswers};
use super::mcp_host::{AllowedHosts, McpHost};
use super::request::client_addr::TrustedProxies;
use super::request::head;
use crate::http::metadata;
use crate::telemetry::http::RequestTelemetry;
use handbill_pages::log_throttle::LogThrottle;
use handbill_pages::values::client::{Peer, private_network};
use handbill_pages::values::origin::Origin;

/// Shortest time between two warnings about a proxy. Anyone can send its header, so the warnings must not fill the log.
pub(super) const WARNING_PAUSE: Duration = Duration::from_hours(1);

pub(super) struct Layers {
    pub(super) telemetry: Arc<RequestTelemetry>,
    pub(super) proxies: TrustedProxies,
    pub(super) warnings: LogThrottle,
    pub(super) mcp_host: Option<McpHost>,
    pub(super) large_answers: LargeAnswers,
    pub(super) finish: CommonHeaders,
}

/// From the outside in: observe, add header fields, make room for a large answer, check the head, answer a preflight,
/// and turn a panic into 500.
pub(super) async fn around(State(layers): State<Arc<Layers>>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let (endpoint, is_safe) = (Endpoint::of(&head.uri), head.method.is_safe());
    let origin = head.headers.get(ORIGIN).filter(|_| endpoint == Endpoint::Tools).cloned();
    let observed = layers.telemetry.begin(&mut head);
    layers.warn_of_proxy(&head);
    let is_preflight = head.method == Method::OPTIONS && endpoint != Endpoint::Tools;
    let response = match layers.check(&head) {
        Err(error) => error.at(endpoint),
        // Scripts of any site may call the API: without cookies, a browser adds no credentials.
        Ok(()) if is_preflight => preflight(METHODS, REQUEST_FIELDS),
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
    layers.finish.complete(endpoint, origin, &mut response);
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

const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const CSP_NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");

const EXPOSED: HeaderValue =
    HeaderValue::from_static("etag,link,location,retry-after,www-authenticate,ratelimit,ratelimit-policy,x-request-id");

const EXPOSED_BY_TOOLS: HeaderValue = HeaderValue::from_static("allow,retry-after,x-request-id");

pub(super) struct CommonHeaders {
    service_desc: HeaderValue,
    /// Whose scripts may read the responses of `/mcp`.
    allowed: AllowedHosts,
}

impl CommonHeaders {
    pub(super) fn new(base_url: &Origin, allowed: AllowedHosts) -> Self {
        let link = format!(r#"<{base_url}{}>; rel="service-desc"; type="application/json""#, metadata::path::OPENAPI);
        Self { service_desc: HeaderValue::try_from(link).expect("an origin is ASCII"), allowed }
    }

    /// `origin` is that of a caller of the tools.
    fn complete(&self, endpoint: Endpoint, origin: Option<HeaderValue>, response: &mut Response) {
        let is_interface = matches!(endpoint, Endpoint::Api | Endpoint::Token);
        let is_error = response.status().is_client_error() || response.status().is_server_error();
        let headers = response.headers_mut();
        if is_interface || is_error {
            headers.append(LINK, self.service_desc.clone());
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
        headers.insert(REFERRER_POLICY, NO_REFERRER);
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(CSP_NOTHING);
        if endpoint == Endpoint::Token {
            headers.insert(CACHE_CONTROL, NO_STORE);
            headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
        }
        let (readers, exposed) = match endpoint {
            Endpoint::Tools => {
                // Any response may show an edit key.
                headers.insert(CACHE_CONTROL, NO_STORE);
                headers.entry(VARY).or_insert(HeaderValue::from_static("origin"));
                (origin.filter(|origin| self.allowed.admits_origin(origin)), EXPOSED_BY_TOOLS)
            }
            Endpoint::Site | Endpoint::Api | Endpoint::Token => (Some(ANY_ORIGIN), EXPOSED),
        };
        if let Some(readers) = readers {
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, readers);
            response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

const METHODS: &str = "GET,HEAD,POST,PATCH,DELETE";

const REQUEST_FIELDS: &str = "accept,authorization,content-type,if-match,if-none-match";

/// Says what scripts of the origins that [`CommonHeaders`] names may send, and for a day.
pub(crate) fn preflight(methods: &'static str, fields: &'static str) -> Response {
    let allowed = [
        (ACCESS_CONTROL_ALLOW_METHODS, methods),
        (ACCESS_CONTROL_ALLOW_HEADERS, fields),
        (ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    (allowed, ()).into_response()
}
