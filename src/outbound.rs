//! HTTP requests to other servers, each with one time limit.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// A lost packet is sent again within 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Trusts the machine's certificate authorities. Returns every status as an answer, and callers bound the bytes that
/// they read.
pub fn agent(time: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .root_certs(RootCerts::PlatformVerifier)
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(time))
        .user_agent(concat!("handbill/", env!("CARGO_PKG_VERSION")));
    config.build().new_agent()
}
