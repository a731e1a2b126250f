//! Admits only requests that call the operators' listener by an address, by `localhost` or by a name of `--allowed-hosts`.
//!
//! A website can make its own name point at this machine (DNS rebinding), and a browser within reach would then show it
//! the metrics. Such a request has the website's name in `Host`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::HeaderValue;
use http::header::HOST;

use super::refusal::OperatorsRefusal;
use handbill_core::domain::authority::Authority;

/// Routes that tell a website nothing. Probes may call them by any name.
const PROBES: [&str; 2] = ["/livez", "/readyz"];

/// `routes`, except probes, for requests that name one of `hosts`.
pub fn for_hosts(routes: Router, hosts: Vec<Authority>) -> Router {
    routes.layer(from_fn_with_state(Arc::<[_]>::from(hosts), check))
}

async fn check(
    State(hosts): State<Arc<[Authority]>>,
    request: Request,
    next: Next,
) -> Result<Response, OperatorsRefusal> {
    // Only HTTP/1.0 may leave out the host, and no browser speaks it.
    let is_ours = request.headers().get(HOST).is_none_or(|host| admits(&hosts, host));
    if is_ours || PROBES.contains(&request.uri().path()) {
        return Ok(next.run(request).await);
    }
    Err(OperatorsRefusal::forbidden(
        "The operators' listener does not know the host in the header `Host`. Call it by its address or as `localhost`; --allowed-hosts adds names.",
    ))
}

fn admits(hosts: &[Authority], host: &HeaderValue) -> bool {
    let Some(host) = host.to_str().ok().and_then(|text| Authority::parse(text).ok()) else { return false };
    host.is_address() || host.is_local() || hosts.iter().any(|known| known.admits(&host))
}
