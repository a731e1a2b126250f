//! The operators' listener, on a thread and a runtime of its own. So probes and scrapes are answered even if clients keep
//! every other thread busy.

use std::io;
use std::thread;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::api::request::client_addr::TrustedProxies;
use crate::api::request::head;
use crate::api::types::ErrorBody;
use crate::http::drain::Phase;
use crate::http::listener::{Limits, ListenerMetrics, serve};

/// Serves `routes` on `listener` until `phase` says stop or the process ends.
pub fn start(listener: TcpListener, routes: Router, phase: watch::Receiver<Phase>) -> io::Result<()> {
    let listener = listener.into_std()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serving = move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                // Connections to this listener are not those of clients, so no metric counts them.
                Ok(listener) => {
                    let no_proxies = TrustedProxies { networks: Vec::new() };
                    let uncounted = ListenerMetrics::default();
                    let routes = routes.layer(from_fn(check_head));
                    serve(listener, routes, Limits::OPERATORS, no_proxies, uncounted, phase).await;
                }
                Err(error) => tracing::error!(%error, "the operators' listener cannot be used"),
            }
        });
    };
    thread::Builder::new().name("handbill-admin".to_owned()).spawn(serving)?;
    Ok(())
}

/// Refuses heads that must not be served, as the public listener does.
async fn check_head(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match head::check(&head) {
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err(error) => {
            let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
            (status, Json(ErrorBody::new(error))).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;
    use crate::http::drain::Readiness;
    use crate::operators::api::probes::{self, Probes};
    use crate::telemetry::metrics::Metrics;

    /// Longest wait for an answer that must come. Nothing depends on it being short.
    const TEST_TIMEOUT: Duration = Duration::from_mins(1);

    fn get(address: SocketAddr, path: &str) -> String {
        let mut connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        write!(connection, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn operators_are_answered_while_every_thread_for_the_public_is_busy() {
        let public = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let metrics = Arc::new(Metrics::new());
        let readiness = Arc::new(Readiness::new(metrics.draining.clone()));
        let (_phase, phases) = watch::channel(Phase::Serving);
        let address = public.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let routes = probes::router(Probes { metrics, readiness: Arc::clone(&readiness) });
            start(listener, routes, phases).unwrap();
            address
        });

        let (busy, all_busy) = mpsc::channel();
        let releases: Vec<_> = (0..2)
            .map(|_| {
                let (release, released) = mpsc::channel::<()>();
                let busy = busy.clone();
                public.spawn(async move {
                    busy.send(()).unwrap();
                    let _ = released.recv();
                });
                release
            })
            .collect();
        for _ in &releases {
            all_busy.recv_timeout(TEST_TIMEOUT).unwrap();
        }

        assert!(get(address, "/livez").starts_with("HTTP/1.1 200 "));
        assert!(get(address, "/readyz").starts_with("HTTP/1.1 200 "));
        readiness.set_missing("store", "not reached yet");
        assert!(get(address, "/readyz").starts_with("HTTP/1.1 503 "), "a change on another runtime is seen here");
        assert!(get(address, "/metrics").starts_with("HTTP/1.1 200 "));
        drop(releases);
    }
}
