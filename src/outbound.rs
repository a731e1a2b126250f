//! HTTP requests of this program to other servers. Each has one time limit, from connecting to the end of the answer.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// How long connecting may take. A lost packet is sent again within 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of other servers that trusts the certificate authorities of this machine. It gives every answer as it is, whatever its
/// status. Callers bound the bytes that they read of it.
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
