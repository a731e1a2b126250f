//! The names by which the operators' listener may be called.

use std::sync::Arc;

use axum::Router;
use handbill::http::drain::Readiness;
use handbill::operators::api::for_hosts;
use handbill::operators::api::probes::{self, Probes};
use handbill_core::domain::authority::Authority;

use super::{Operated, OperatorsAnswer, TOKEN, request};

/// The routes of the operators' listener, as the process puts them together.
fn listener(names: &[&str]) -> Operated {
    let mut operated = Operated::start();
    let metrics = Arc::clone(&operated.app.metrics);
    let readiness = Arc::new(Readiness::new(metrics.draining.clone()));
    let routes = probes::router(Probes { metrics, readiness }).merge(std::mem::take::<Router>(&mut operated.routes));
    operated.routes = for_hosts(routes, names.iter().map(|name| Authority::parse(name).unwrap()).collect());
    operated
}

async fn call(operated: &Operated, method: &str, path: &str, host: Option<&str>) -> OperatorsAnswer {
    let mut request = request(method, path, Some(TOKEN), "");
    if let Some(host) = host {
        request.headers_mut().insert("host", host.parse().unwrap());
    }
    operated.send(request).await
}

#[tokio::test]
async fn another_name_is_refused_on_every_route_but_the_probes_with_a_token_too() {
    let operated = listener(&["metrics.example"]);
    for host in
        ["evil.example", "evil.example:9090", "metrics.example.evil.example", "127.0.0.1.evil.example", "a b", ""]
    {
        for (method, path) in [("GET", "/metrics"), ("GET", "/creates"), ("POST", "/takedown"), ("GET", "/nothing")] {
            let answer = call(&operated, method, path, Some(host)).await.expect(403);
            assert_eq!(answer.json()["error"], "forbidden", "{host} {path}");
            assert!(answer.text.contains("--allowed-hosts"), "{answer:?}");
        }
        for probe in ["/livez", "/readyz"] {
            call(&operated, "GET", probe, Some(host)).await.expect(200);
        }
    }
}

#[tokio::test]
async fn an_address_localhost_a_name_of_the_setting_and_no_name_are_served() {
    let operated = listener(&["metrics.example", "one.example:9090"]);
    for host in [
        "127.0.0.1:9090",
        "10.42.0.7:9090",
        "192.0.2.1",
        "[::1]:9090",
        "[2001:db8::1]",
        "localhost",
        "LOCALHOST:9090",
        "metrics.example",
        "Metrics.Example:1",
        "one.example:9090",
    ] {
        for path in ["/metrics", "/creates"] {
            call(&operated, "GET", path, Some(host)).await.expect(200);
        }
    }
    call(&operated, "GET", "/metrics", Some("one.example:9091")).await.expect(403);
    // Load balancers may check in HTTP/1.0. The listener refuses an HTTP/1.1 request without a host.
    call(&operated, "GET", "/metrics", None).await.expect(200);
}
