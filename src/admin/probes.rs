//! `/metrics`, `/livez` and `/readyz`, on a thread of their own, so that they answer while clients keep all others
//! busy.

use std::{collections::BTreeMap, io, sync::Arc, thread, time::Duration};

use axum::response::{IntoResponse, Response};
use axum::{Json, Router, extract::State, routing::get};
use http::header::{CONTENT_TYPE, VARY};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::json;
use tokio::runtime::{Builder, Handle};
use tokio::{net::TcpListener, task::spawn_blocking, time::timeout};

use crate::http::negotiation::prefers;
use crate::telemetry::metrics::{Metrics, OPENMETRICS_TYPE, TEXT_TYPE};

/// How long `/livez` waits for the threads of clients. Shorter than the chart's probes and `healthcheck`, which take 2 s
/// or more.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Probes {
    /// Its threads answer clients.
    pub public: Handle,
    pub metrics: Arc<Metrics>,
    pub readiness: Arc<Readiness>,
    /// The file that a process with an SQLite store must still find.
    pub database: Option<Arc<dyn StoreFile>>,
}

pub trait StoreFile: Send + Sync {
    /// Why the file of this store is no longer at its path.
    fn moved(&self) -> Option<String>;
}

/// What `/readyz` answers: whether load balancers should send requests here, and if not, why.
#[derive(Debug)]
pub struct Readiness {
    reasons: Mutex<BTreeMap<&'static str, String>>,
    draining: Gauge,
}

impl Readiness {
    pub fn new(draining: Gauge) -> Self {
        Self { reasons: Mutex::default(), draining }
    }

    pub fn set_missing(&self, component: &'static str, reason: impl Into<String>) {
        self.reasons.lock().insert(component, reason.into());
    }

    pub fn set_present(&self, component: &'static str) {
        self.reasons.lock().remove(component);
    }

    pub fn missing(&self) -> BTreeMap<&'static str, String> {
        self.reasons.lock().clone()
    }

    pub fn drain(&self) {
        self.draining.set(1);
        self.set_missing("process", "draining");
    }
}

/// The database in the answer of `/readyz`.
const DATABASE: &str = "database";

impl Probes {
    /// Notices that the database was moved or removed.
    async fn look_for_database(&self) {
        let Some(file) = self.database.clone() else { return };
        // A disk that hangs must not keep `/livez` waiting.
        let Ok(Some(reason)) = spawn_blocking(move || file.moved()).await else {
            return self.readiness.set_present(DATABASE);
        };
        self.metrics.calls.store_available.set(0);
        if !self.readiness.missing().contains_key(DATABASE) {
            tracing::error!(reason, "the store can be neither read nor written");
            self.readiness.set_missing(DATABASE, reason);
        }
    }
}

pub fn start(listener: TcpListener, probes: Probes) -> io::Result<()> {
    let listener = listener.into_std()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("handbill-admin".to_owned()).spawn(move || {
        let served = runtime.block_on(async { axum::serve(TcpListener::from_std(listener)?, router(probes)).await });
        if let Err(error) = served {
            tracing::error!(%error, "cannot use the port for metrics and probes");
        }
    })?;
    Ok(())
}

fn router(probes: Probes) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(probes)
}

/// Whether the threads of clients still take work. Asks no backend: its outage must not restart every replica.
async fn livez(State(probes): State<Probes>) -> (StatusCode, &'static str) {
    match timeout(HEARTBEAT_TIMEOUT, probes.public.spawn(async {})).await {
        Ok(_) => (StatusCode::OK, "alive\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "every thread for clients is stuck\n"),
    }
}

async fn readyz(State(probes): State<Probes>) -> Response {
    probes.look_for_database().await;
    let missing = probes.readiness.missing();
    let ready = missing.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({"ready": ready, "missing": missing}))).into_response()
}

async fn metrics(State(probes): State<Probes>, headers: HeaderMap) -> impl IntoResponse {
    probes.look_for_database().await;
    let (content_type, text) = if prefers(&headers, "application/openmetrics-text", "text/plain") {
        (OPENMETRICS_TYPE, probes.metrics.openmetrics())
    } else {
        (TEXT_TYPE, probes.metrics.exposition())
    };
    ([(CONTENT_TYPE, content_type), (VARY, "Accept")], text)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::mpsc;
    use std::time::Duration;

    use axum::body::Body;
    use http::Request;
    use http::header::ACCEPT;
    use tower::ServiceExt;

    use super::*;

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

    #[tokio::test]
    async fn a_scrape_is_openmetrics_to_a_client_that_prefers_it() {
        let metrics: Arc<Metrics> = Arc::default();
        let readiness = Arc::new(Readiness::new(metrics.draining.clone()));
        let probes = router(Probes { public: Handle::current(), metrics, readiness, database: None });
        for (accept, content_type) in [
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                OPENMETRICS_TYPE,
            ),
            ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.4", TEXT_TYPE),
            ("*/*", TEXT_TYPE),
            ("unknown", TEXT_TYPE),
        ] {
            let request = Request::get("/metrics").header(ACCEPT, accept).body(Body::empty()).unwrap();
            let answer = probes.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.headers()[CONTENT_TYPE], content_type, "{accept}");
            assert_eq!(answer.headers()[VARY], "Accept", "{accept}");
        }
    }

    #[test]
    fn only_livez_fails_while_every_thread_for_clients_is_stuck() {
        let public = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let metrics = Arc::new(Metrics::default());
        let readiness = Arc::new(Readiness::new(metrics.draining.clone()));
        let address = public.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let public = Handle::current();
            start(listener, Probes { public, metrics, readiness: Arc::clone(&readiness), database: None }).unwrap();
            address
        });

        let (busy, all_busy) = mpsc::channel();
        let mut releases: Vec<_> = (0..2)
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

        assert!(get(address, "/livez").starts_with("HTTP/1.1 503 "));
        assert!(get(address, "/readyz").starts_with("HTTP/1.1 200 "));
        readiness.set_missing("store", "not reached yet");
        assert!(get(address, "/readyz").starts_with("HTTP/1.1 503 "), "a change on another runtime is seen here");
        assert!(get(address, "/metrics").starts_with("HTTP/1.1 200 "));
        releases.pop();
        assert!(get(address, "/livez").starts_with("HTTP/1.1 200 "), "one thread takes the work of all");
    }
}
