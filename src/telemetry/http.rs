//! Observes every request: its id, its span, its line in the log, its metrics.
//!
//! The log has the route's template and never the path or the query, since either may hold a key that somebody
//! pasted into the wrong place.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use ipnet::IpNet;
use tracing::Instrument;
use tracing::field::display;

use super::metrics::{Metrics, RequestLabels, TraceLabel};
use super::spans::{OTHER_METHOD, TraceIds, Tracer, Trust, error_type};
use crate::domain::client::Peer;
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What observing needs.
#[derive(Clone)]
pub struct RequestTelemetry {
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
    /// What measures them.
    pub clock: SharedClock,
    /// What their ids are drawn from.
    pub random: Random,
    /// What makes their spans.
    pub tracer: Tracer,
    /// The networks of the peers whose word on the trace is believed.
    pub trusted_proxies: Vec<IpNet>,
}

/// A request until it is answered, or dropped because its connection was ended first. Its end is recorded when this is dropped.
struct InFlight {
    telemetry: RequestTelemetry,
    started: Duration,
    method: &'static str,
    route: String,
    ids: Option<TraceIds>,
    log: tracing::Span,
    /// The status of its answer, once it has one.
    status: Option<u16>,
}

impl InFlight {
    fn answered(mut self, status: u16) {
        self.status = Some(status);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let metrics = &self.telemetry.metrics;
        metrics.active_requests.dec();
        let took = self.telemetry.clock.monotonic().saturating_sub(self.started).as_secs_f64();
        let error = error_type(self.status);
        self.log.in_scope(|| {
            let (trace_id, span_id) =
                (self.ids.map(|ids| display(ids.trace_id)), self.ids.map(|ids| display(ids.span_id)));
            let (status, error_type) = (self.status, error.as_deref());
            let end = if status.is_some() { "answered" } else { "abandoned" };
            tracing::info!(status, error_type, duration_seconds = took, trace_id, span_id, "{end}");
        });
        let labels = RequestLabels {
            http_request_method: self.method,
            http_route: std::mem::take(&mut self.route),
            http_response_status_code: self.status,
            error_type: error,
        };
        metrics.requests.get_or_create(&labels).observe(took, self.ids.and_then(exemplar), None);
    }
}

/// Lets the request pass and records what became of it. Its id is in the answer and in every event on the way.
pub async fn observe(State(telemetry): State<RequestTelemetry>, request: Request, next: Next) -> Response {
    let started = telemetry.clock.monotonic();
    let id = hex_id(&telemetry.random);
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();

    let (head, body) = request.into_parts();
    let trusted = head.extensions.get::<Peer>().is_some_and(|peer| peer.is_in(&telemetry.trusted_proxies));
    let trust = if trusted { Trust::Continue } else { Trust::Link };
    let span = telemetry.tracer.request(&head, trust, method, &route, &id);
    let mut request = Request::from_parts(head, body);
    let log = tracing::info_span!("request", request_id = id, method, route);
    request.extensions_mut().insert(span.within(trust, log.clone()));

    telemetry.metrics.active_requests.inc();
    let in_flight = InFlight { started, method, route, ids: span.ids(), log: log.clone(), status: None, telemetry };
    let mut response = span.around(next.run(request)).instrument(log).await;
    let status = response.status().as_u16();
    span.answered(status);
    in_flight.answered(status);
    // A cache takes the fields of a 304 over into what it holds, which has the id of the request that fetched it.
    if response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(X_REQUEST_ID, HeaderValue::try_from(id).expect("it is hexadecimal"));
    }
    response
}

/// What leads from a bucket to a trace that was counted in it, where that trace can be looked at.
fn exemplar(ids: TraceIds) -> Option<TraceLabel> {
    ids.is_sampled.then(|| TraceLabel { trace_id: ids.trace_id.to_string() })
}

/// The method as a label: clients may invent others.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        Method::QUERY => "QUERY",
        _ => OTHER_METHOD,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use serde_json::Value;
    use tokio::sync::Notify;
    use tower::ServiceExt;

    use super::*;
    use crate::ports::clock::SystemClock;
    use crate::ports::random::Random;

    /// Keeps what is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        fn lines(&self) -> Vec<Value> {
            let bytes = self.0.lock().unwrap();
            bytes.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
        }
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_before_its_answer_is_logged_and_counted() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone());
        let _logging = tracing::subscriber::set_default(subscriber.finish());
        let telemetry = RequestTelemetry {
            metrics: Arc::default(),
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            tracer: Tracer::of(&SdkTracerProvider::default()),
            trusted_proxies: Vec::new(),
        };
        let metrics = Arc::clone(&telemetry.metrics);
        let begun = Arc::new(Notify::new());
        let beginning = Arc::clone(&begun);
        let never = async move || {
            beginning.notify_one();
            std::future::pending::<()>().await;
        };
        let routes = Router::new().route("/{slug}", get(never)).layer(from_fn_with_state(telemetry, observe));
        let request = Request::get("/secret?sesame").body(Body::empty()).unwrap();
        let mut answering = Box::pin(routes.oneshot(request));
        tokio::select! {
            biased;
            _ = answering.as_mut() => unreachable!(),
            () = begun.notified() => {}
        }
        assert_eq!(metrics.active_requests.get(), 1);
        // As the server drops it when the connection is ended.
        drop(answering);
        assert_eq!(metrics.active_requests.get(), 0);

        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let line = &lines[0];
        assert_eq!((&line["message"], &line["level"]), (&"abandoned".into(), &"INFO".into()));
        assert_eq!((&line["error_type"], &line["status"]), (&"abandoned".into(), &Value::Null));
        assert_eq!((&line["span"]["method"], &line["span"]["route"]), (&"GET".into(), &"/{slug}".into()));
        assert!(line["span"]["request_id"].as_str().is_some_and(|id| id.len() == 16), "{line}");
        assert!(line["duration_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{line}");
        assert!(line["trace_id"].as_str().is_some_and(|id| id.len() == 32), "{line}");
        assert!(!line.to_string().contains("secret") && !line.to_string().contains("sesame"), "{line}");
        let counted = r#"_count{http_request_method="GET",http_route="/{slug}",error_type="abandoned"} 1"#;
        assert!(metrics.exposition().contains(counted), "{}", metrics.exposition());
    }
}
