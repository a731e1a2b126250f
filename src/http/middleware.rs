//! The layers of each group of routes: what every request passes, and the header fields that all answers share.

use std::{convert::Infallible, future::ready, sync::Arc, time::Duration};

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::{Router, response::Response};
use http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LINK,
    LOCATION, ORIGIN, PRAGMA, REFERRER_POLICY, RETRY_AFTER, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, request::Parts};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{Any, CorsLayer};

use super::answer::{RATE_LIMIT, RATE_LIMIT_POLICY};
use super::error::{ApiError, Interface};
use super::{etag::NO_STORE, listener::LargeAnswers, mcp_host::McpHost, request::head, state::AppState};
use crate::http::metadata;
use crate::telemetry::http::X_REQUEST_ID;
use handbill_pages::log_throttle::LogThrottle;
use handbill_pages::values::client::{Peer, private_network};

/// Shortest time between two warnings about a proxy. Anyone can send its header, so the warnings must not fill the log.
const WARNING_PAUSE: Duration = Duration::from_hours(1);

/// How long a browser may keep the answer to a preflight.
pub(crate) const PREFLIGHT_AGE: Duration = Duration::from_hours(24);

const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const CSP_NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// What the layers of all groups share.
pub(super) struct Front {
    app: Arc<AppState>,
    warnings: LogThrottle,
    mcp_host: Option<McpHost>,
    large_answers: LargeAnswers,
    /// Leads from answers to the OpenAPI document.
    service_desc: HeaderValue,
}

struct Group {
    interface: Interface,
    cors: CorsLayer,
    front: Arc<Front>,
}

/// From the outside in: [observe] and complete, CORS, and turn a panic into 500.
///
/// Request ids are not `tower-http`'s: it takes a client's own, and gives a 304 one too. The header fields of all answers are not its
/// layers: six of them cost a hot read 7 % more instructions than [`Front::complete`].
pub(super) fn around<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    interface: Interface,
    cors: CorsLayer,
    front: &Arc<Front>,
) -> Router<S> {
    let group = Group { interface, cors: cors.clone(), front: Arc::clone(front) };
    routes.layer(ServiceBuilder::new().layer(from_fn_with_state(Arc::new(group), observe)).layer(cors).layer(
        CatchPanicLayer::custom(move |_| {
            // The panic hook has logged the place.
            tracing::error!("a handler panicked");
            ApiError::internal().at(interface)
        }),
    ))
}

/// Scripts of any site may call the API: without cookies, a browser adds no credentials.
pub(super) fn any_site() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH])
        .expose_headers([
            ETAG,
            LINK,
            LOCATION,
            RETRY_AFTER,
            WWW_AUTHENTICATE,
            RATE_LIMIT,
            RATE_LIMIT_POLICY,
            X_REQUEST_ID,
        ])
        .max_age(PREFLIGHT_AGE)
}

async fn observe(State(group): State<Arc<Group>>, request: Request, next: Next) -> Response {
    let Group { interface, front, .. } = &*group;
    let (mut parts, body) = request.into_parts();
    let is_safe = parts.method.is_safe();
    let observed = front.app.telemetry.begin(&mut parts);
    front.warn_of_proxy(&parts);
    let mut response = match front.check(&parts) {
        Ok(()) => {
            let response = observed.run(next.run(Request::from_parts(parts, body))).await;
            front.large_answers.admit(response).unwrap_or_else(|fields| dropped(*interface, is_safe, &fields))
        }
        Err(error) => Box::pin(group.refuse(error, parts.headers.remove(ORIGIN))).await,
    };
    front.complete(*interface, &mut response);
    observed.answered(&mut response);
    response
}

/// In place of an answer that is too large, with what CORS said of that.
fn dropped(interface: Interface, is_safe: bool, fields: &HeaderMap) -> Response {
    let error = if is_safe { ApiError::no_room() } else { ApiError::no_room_to_answer() };
    let mut response = error.at(interface);
    let of_cors = fields.iter().filter(|(name, _)| name.as_str().starts_with("access-control-") || *name == VARY);
    response.headers_mut().extend(of_cors.map(|(name, value)| (name.clone(), value.clone())));
    response
}

impl Group {
    /// Through CORS, which is further in than the checks.
    async fn refuse(&self, error: ApiError, origin: Option<HeaderValue>) -> Response {
        let interface = self.interface;
        let erring = service_fn(move |_: Request| ready(Ok::<_, Infallible>(error.clone().at(interface))));
        let mut request = Request::default();
        request.headers_mut().extend(origin.map(|origin| (ORIGIN, origin)));
        let Ok(response) = self.cors.layer(erring).oneshot(request).await;
        response
    }
}

impl Front {
    pub(super) fn new(app: Arc<AppState>) -> Self {
        let AppState { base_url, site, .. } = &*app;
        let link = format!(r#"<{base_url}{}>; rel="service-desc"; type="application/json""#, metadata::path::OPENAPI);
        Self {
            warnings: LogThrottle::new(WARNING_PAUSE),
            mcp_host: McpHost::of(base_url, site),
            large_answers: LargeAnswers::default(),
            service_desc: HeaderValue::try_from(link).expect("an origin is ASCII"),
            app,
        }
    }

    fn complete(&self, interface: Interface, response: &mut Response) {
        let is_error = response.status().is_client_error() || response.status().is_server_error();
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
        headers.insert(REFERRER_POLICY, NO_REFERRER);
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(CSP_NOTHING);
        if is_error || matches!(interface, Interface::Api | Interface::Token) {
            headers.append(LINK, self.service_desc.clone());
        }
        // Any answer of these may show a key.
        if matches!(interface, Interface::Token | Interface::Tools) {
            headers.insert(CACHE_CONTROL, NO_STORE);
        }
        if interface == Interface::Token {
            headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
        }
    }

    fn check(&self, head: &Parts) -> Result<(), ApiError> {
        head::check(head)?;
        self.mcp_host.as_ref().and_then(|host| host.refuse(head)).map_or(Ok(()), Err)
    }

    /// Counts a request with an `X-Forwarded-For` header from a peer that is not trusted, and sometimes logs which option to set:
    /// behind a proxy that is missing in the settings, all clients share one rate limit.
    fn warn_of_proxy(&self, head: &Parts) {
        let Some(&Peer(peer)) = head.extensions.get::<Peer>() else { return };
        let AppState { proxies, telemetry, .. } = &*self.app;
        if !proxies.ignores(peer.ip(), &head.headers) {
            return;
        }
        telemetry.metrics.untrusted_forwarded.inc();
        if self.warnings.allow(telemetry.clock.monotonic()) {
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
