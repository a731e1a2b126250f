//! HTTP requests to other servers, each with one time limit.

use std::{sync::Arc, time::Duration};

use handbill_pages::values::origin::Origin;
use http::{Request, Response};
use rustls::crypto::aws_lc_rs;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, AsSendBody, Body, Error};

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

/// Sends `request` through the proxy that the environment names, unless it goes to this machine: `localhost` and `127.0.0.1` are another
/// machine to a proxy.
pub fn send<B: AsSendBody>(agent: &Agent, request: Request<B>) -> Result<Response<Body>, Error> {
    let server = request.uri().authority().map(|authority| Origin::parse(&format!("http://{authority}")));
    if server.is_some_and(|server| server.is_ok_and(|server| server.is_local())) {
        return agent.run(agent.configure_request(request).proxy(None).build());
    }
    agent.run(request)
}
