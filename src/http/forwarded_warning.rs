//! Warns about proxies that are missing in the settings: their clients share one rate limit.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tracing::field::display;

use crate::http::request::client_addr::TrustedProxies;
use crate::telemetry::http::RequestTelemetry;
use handbill_pages::log_throttle::LogThrottle;
use handbill_pages::values::client::{Peer, private_network};

/// Anyone can send the header, so warnings must not fill the log.
const WARNING_PAUSE: Duration = Duration::from_hours(1);

pub(super) struct ForwardedWarning {
    proxies: TrustedProxies,
    telemetry: Arc<RequestTelemetry>,
    throttle: LogThrottle,
}

impl ForwardedWarning {
    pub(super) fn new(proxies: TrustedProxies, telemetry: Arc<RequestTelemetry>) -> Self {
        Self { proxies, telemetry, throttle: LogThrottle::new(WARNING_PAUSE) }
    }

    /// Counts `X-Forwarded-For` from untrusted peers, and sometimes logs which option to set.
    pub(super) fn check(&self, head: &Parts) {
        let Some(Peer(peer)) = head.extensions.get() else { return };
        if !self.proxies.ignores(peer.ip(), &head.headers) {
            return;
        }
        self.telemetry.metrics.untrusted_forwarded.inc();
        if self.throttle.allow(self.telemetry.clock.monotonic()) {
            // The option needs the network; a person's address must not be logged.
            let peer_network = private_network(peer.ip()).map(display);
            tracing::warn!(
                peer_network,
                "X-Forwarded-For was ignored, because its sender is not a trusted proxy: if it is a proxy of \
                 yours, add its network to --trusted-proxies, or all its clients share one rate limit"
            );
        }
    }
}
