//! Warns about proxies that are missing in the settings: behind such a proxy, all clients share one rate limit.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Extensions, HeaderMap};
use tracing::field::display;

use crate::api::request::client_addr::TrustedProxies;
use crate::domain::client::{Peer, private_network};
use crate::telemetry::http::RequestTelemetry;
use crate::telemetry::log_throttle::LogThrottle;

/// Shortest time between two warnings. Anyone can send a forwarding header, so the warnings must not fill the log.
const WARNING_PAUSE: Duration = Duration::from_hours(1);

/// The state of the warning.
pub(in crate::http) struct ForwardedWarning {
    proxies: TrustedProxies,
    telemetry: RequestTelemetry,
    throttle: LogThrottle,
}

impl ForwardedWarning {
    pub(in crate::http) fn new(proxies: TrustedProxies, telemetry: RequestTelemetry) -> Arc<Self> {
        Arc::new(Self { proxies, telemetry, throttle: LogThrottle::new(WARNING_PAUSE) })
    }

    /// The peer of a request with a forwarding header, if the peer is not trusted.
    pub(in crate::http) fn untrusted_sender(&self, extensions: &Extensions, headers: &HeaderMap) -> Option<IpAddr> {
        let Peer(peer) = extensions.get::<Peer>()?;
        self.proxies.ignores(peer.ip(), headers).then(|| peer.ip())
    }
}

/// Counts requests with a forwarding header from a peer that is not trusted, and sometimes logs which option to set. The
/// response is not affected.
pub(in crate::http) async fn warn(
    State(warning): State<Arc<ForwardedWarning>>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(peer) = warning.untrusted_sender(request.extensions(), request.headers()) {
        warning.telemetry.metrics.untrusted_forwarded.inc();
        if warning.throttle.allow(warning.telemetry.clock.monotonic()) {
            // A person's address must not be logged. The network of a proxy is what the option needs.
            let peer_network = private_network(peer).map(display);
            tracing::warn!(
                peer_network,
                "X-Forwarded-For or Forwarded was ignored, because its sender is not a trusted proxy: if it is a proxy of \
                 yours, add its network to --trusted-proxies, or all its clients share one rate limit"
            );
        }
    }
    next.run(request).await
}
