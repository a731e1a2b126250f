//! Notices proxies that nobody told this service to trust: behind one, all clients share one limit.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tracing::field::display;

use crate::api::request::client_addr::{TrustedProxies, private_network};
use crate::domain::client::Peer;
use crate::telemetry::http::RequestTelemetry;
use crate::telemetry::log_throttle::LogThrottle;

/// How seldom the log tells of it. Anyone can send such a header, so it must not fill the log.
const WARNING_PAUSE: Duration = Duration::from_hours(1);

/// What noticing needs.
pub(in crate::http) struct Untrusted {
    proxies: TrustedProxies,
    telemetry: RequestTelemetry,
    warning: LogThrottle,
}

impl Untrusted {
    pub(in crate::http) fn new(proxies: TrustedProxies, telemetry: RequestTelemetry) -> Arc<Self> {
        Arc::new(Self { proxies, telemetry, warning: LogThrottle::new(WARNING_PAUSE) })
    }
}

/// Counts requests whose header names a client that is not believed, and says now and then what to set. The answer is
/// the same.
pub(in crate::http) async fn notice(State(untrusted): State<Arc<Untrusted>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().map(|Peer(peer)| peer.ip());
    if let Some(peer) = peer
        && untrusted.proxies.ignores(peer, request.headers())
    {
        untrusted.telemetry.metrics.untrusted_forwarded.inc();
        if untrusted.warning.allow(untrusted.telemetry.clock.monotonic()) {
            // A person's address is nobody's business; a proxy's network is what is to be set.
            let peer_network = private_network(peer).map(display);
            tracing::warn!(
                peer_network,
                "X-Forwarded-For or Forwarded came from a peer that is not trusted and is ignored: if a proxy of yours \
                 sent it, name its network in --trusted-proxies, or all its clients share one limit"
            );
        }
    }
    next.run(request).await
}
