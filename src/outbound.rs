//! HTTP requests to other servers, each with one time limit.

use std::{sync::Arc, time::Duration};

use handbill_pages::values::origin::Origin;
use http::{Request, Uri};
use rustls::crypto::aws_lc_rs;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, SendBody, config::ConfigBuilder, middleware::MiddlewareNext, typestate::AgentScope};

/// A lost packet is sent again within 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Trusts the machine's certificate authorities. Returns every status as an answer, and callers bound the bytes that
/// they read. Requests go through the proxy that the environment names, unless they go to this machine: `localhost` and `127.0.0.1` are
/// another machine to a proxy.
pub fn agent(time: Duration) -> Agent {
    let direct = config(time).proxy(None).build().new_agent();
    let config = config(time).middleware(move |request: Request<SendBody<'_>>, next: MiddlewareNext<'_>| {
        if is_to_this_machine(request.uri()) { direct.run(request) } else { next.handle(request) }
    });
    config.build().new_agent()
}

fn config(time: Duration) -> ConfigBuilder<AgentScope> {
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .root_certs(RootCerts::PlatformVerifier)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(time))
        .user_agent(concat!("handbill/", env!("CARGO_PKG_VERSION")))
}

fn is_to_this_machine(address: &Uri) -> bool {
    let server = address.authority().map(|authority| Origin::parse(&format!("http://{authority}")));
    server.is_some_and(|server| server.is_ok_and(|server| server.is_local()))
}
