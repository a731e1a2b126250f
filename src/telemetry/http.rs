//! Observes every request: its id, its span, its line in the log, its metrics.
//!
//! The log has the route's template and never the path or the query: either may hold a key that somebody pasted into the
//! wrong place.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Extensions, HeaderName, HeaderValue, Method, StatusCode};
use ipnet::IpNet;
use opentelemetry::trace::SpanContext;
use tracing::Instrument;
use tracing::field::display;

use super::labels::{RequestLabels, TraceLabel};
use super::logs::{self, RequestEnd};
use super::metrics::{Metrics, TracedHistogram};
use super::spans::{self, OTHER_METHOD, Trust, error_type};
use crate::domain::client::Peer;
use crate::ports::clock::SharedClock;
use crate::ports::random::{Random, hex_id};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Dependencies of [`observe`].
#[derive(Clone)]
pub struct RequestTelemetry {
    /// Counts requests.
    pub metrics: Arc<Metrics>,
    /// Measures how long requests take.
    pub clock: SharedClock,
    /// Yields the ids of requests.
    pub random: Random,
    /// The networks of the proxies whose traces are continued.
    pub trusted_proxies: Vec<IpNet>,
}

/// When a request began, and its id.
#[derive(Clone, Debug)]
struct RequestBegan {
    at: Duration,
    id: String,
}

/// A request in flight, until it is answered or is dropped because its connection ended first. Dropping this value
/// records the request's end.
pub struct InFlight {
    telemetry: RequestTelemetry,
    /// `None` once somebody else observes the request.
    began: Option<RequestBegan>,
    method: &'static str,
    route: Cow<'static, str>,
    ids: Option<SpanContext>,
    log: tracing::Span,
    /// The status of the answer, once there is one.
    status: Option<u16>,
}

impl InFlight {
    fn new(
        telemetry: RequestTelemetry,
        began: RequestBegan,
        method: &'static str,
        route: Cow<'static, str>,
        ids: Option<SpanContext>,
    ) -> Self {
        let log = tracing::info_span!("request", request_id = began.id, method, route = &*route);
        telemetry.metrics.active_requests.inc();
        Self { telemetry, began: Some(began), method, route, ids, log, status: None }
    }

    /// Does `work` for this request. The request's id is in every event of `work`.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        work.instrument(self.log.clone()).await
    }

    /// Records that the request is answered with `response`, and sets its id there.
    pub fn answered(mut self, response: &mut Response) {
        self.status = Some(response.status().as_u16());
        if let Some(began) = &self.began {
            set_id(response, &began.id);
        }
    }

    /// Leaves the request with these `extensions` to [`observe`]. Nothing is recorded here.
    pub fn pass_on(mut self, extensions: &mut Extensions) {
        if let Some(began) = self.began.take() {
            extensions.insert(began);
        }
    }

    fn record(&mut self, began: &RequestBegan) {
        let took = self.telemetry.clock.monotonic().saturating_sub(began.at).as_secs_f64();
        let error = error_type(self.status);
        let is_written = self.ids.is_none()
            && error.is_none()
            && self.status.is_some_and(|status| {
                let (id, route) = (&*began.id, &*self.route);
                logs::write_end(&RequestEnd { id, method: self.method, route, status, took })
            });
        if !is_written {
            self.log.in_scope(|| {
                let trace_id = self.ids.as_ref().map(|ids| display(ids.trace_id()));
                let span_id = self.ids.as_ref().map(|ids| display(ids.span_id()));
                let (status, error_type) = (self.status, error.as_deref());
                let end = if status.is_some() { "answered" } else { "abandoned" };
                tracing::info!(status, error_type, duration_seconds = took, trace_id, span_id, "{end}");
            });
        }
        let labels = RequestLabels {
            http_request_method: self.method,
            http_route: std::mem::take(&mut self.route).into_owned(),
            http_response_status_code: self.status,
            error_type: error,
        };
        let histogram = self.telemetry.metrics.requests.get_or_create(&labels);
        histogram.observe(took, self.ids.as_ref().and_then(exemplar), None);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.telemetry.metrics.active_requests.dec();
        if let Some(began) = self.began.take() {
            self.record(&began);
        }
    }
}

/// Sets the id of the request on its response, unless that is a 304: a cache copies the fields of a 304 to the stored
/// response, which must keep the id of the earlier request that it answered.
fn set_id(response: &mut Response, id: &str) {
    if response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(X_REQUEST_ID, HeaderValue::try_from(id).expect("it is hexadecimal"));
    }
}

/// Passes the request on and records its end. The request's id is in the answer and in every event that the request
/// causes.
pub async fn observe(State(telemetry): State<RequestTelemetry>, mut request: Request, next: Next) -> Response {
    let began = request
        .extensions_mut()
        .remove::<RequestBegan>()
        .unwrap_or_else(|| RequestBegan { at: telemetry.clock.monotonic(), id: hex_id(&telemetry.random) });
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();

    let (head, body) = request.into_parts();
    let trusted = head.extensions.get::<Peer>().is_some_and(|peer| peer.is_in(&telemetry.trusted_proxies));
    let trust = if trusted { Trust::Continue } else { Trust::Link };
    let span = spans::request(&head, trust, method, &route, &began.id);
    let mut request = Request::from_parts(head, body);
    request.extensions_mut().insert(span.of_request(trust));

    let in_flight = InFlight::new(telemetry, began, method, route.into(), span.ids());
    let mut response = span.run(in_flight.run(next.run(request))).await;
    span.answered(response.status().as_u16());
    in_flight.answered(&mut response);
    response
}

/// Records reads that are answered before the router. The result is the same as that of [`observe`]. Parts of that are
/// left out, because such a read has no span that is exported; and one that is answered at once has no event but its end,
/// and is never abandoned.
pub struct ReadyReads {
    telemetry: RequestTelemetry,
    /// The histogram of each method, route and status that was observed.
    observed: [OnceLock<TracedHistogram>; 16],
}

/// When a read began.
#[derive(Clone, Copy, Debug)]
pub struct ReadBegan(Duration);

impl ReadyReads {
    /// No read so far.
    pub fn new(telemetry: RequestTelemetry) -> Self {
        Self { telemetry, observed: Default::default() }
    }

    /// A read that begins now. `None` if requests have spans, which only [`observe`] makes.
    pub fn begin(&self) -> Option<ReadBegan> {
        (!spans::are_exported()).then(|| ReadBegan(self.telemetry.clock.monotonic()))
    }

    /// Counts the read among the requests in flight, until the result is dropped or passed on.
    pub fn in_flight(&self, began: ReadBegan, method: &'static str, route: &'static str) -> InFlight {
        let began = RequestBegan { at: began.0, id: hex_id(&self.telemetry.random) };
        InFlight::new(self.telemetry.clone(), began, method, Cow::Borrowed(route), None)
    }

    /// Records that the read was answered at once with `response`, and sets its id. `method` is `GET` or `HEAD`, and `route`
    /// one of the two routes of pages; or `method` is `POST`, and `route` that of the tools.
    pub fn answered(&self, began: ReadBegan, method: &'static str, route: &'static str, response: &mut Response) {
        let RequestTelemetry { metrics, clock, random, .. } = &self.telemetry;
        let status = response.status();
        let took = clock.monotonic().saturating_sub(began.0).as_secs_f64();
        let id = hex_id(random);
        let end = RequestEnd { id: &id, method, route, status: status.as_u16(), took };
        if !logs::write_end(&end) {
            let log = tracing::info_span!("request", request_id = id, method, route);
            log.in_scope(|| tracing::info!(status = status.as_u16(), duration_seconds = took, "answered"));
        }
        let is = [method == "POST", method == "HEAD", route == "/{slug}", status == StatusCode::NOT_MODIFIED];
        let at = is.iter().fold(0, |at, is| 2 * at + usize::from(*is));
        let histogram = self.observed[at].get_or_init(|| {
            let labels = RequestLabels {
                http_request_method: method,
                http_route: route.to_owned(),
                http_response_status_code: Some(status.as_u16()),
                error_type: None,
            };
            metrics.requests.get_or_create(&labels).clone()
        });
        histogram.observe(took, None, None);
        set_id(response, &id);
    }
}

/// The label that leads from a histogram's bucket to a trace that was counted in the bucket; `None` if the trace is not
/// exported.
fn exemplar(ids: &SpanContext) -> Option<TraceLabel> {
    ids.is_sampled().then(|| TraceLabel { trace_id: ids.trace_id().to_string() })
}

/// The method as a label. All methods that clients invent share one label.
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
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use serde_json::Value;
    use tokio::sync::Notify;
    use tower::ServiceExt;
    use tracing::subscriber::{DefaultGuard, set_default};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{EnvFilter, Registry};

    use super::*;
    use crate::config::LogFormat;
    use crate::ports::clock::SystemClock;
    use crate::ports::random::Random;
    use crate::telemetry::spans::{System, with_current_span};

    /// Keeps the lines that are logged.
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

        /// Logs to this as the process does, with spans, until the guard is dropped.
        fn install(&self) -> DefaultGuard {
            let (writer, tracer) = (self.clone(), SdkTracerProvider::default().tracer("test"));
            let lines = logs::lines(LogFormat::Json, false, EnvFilter::new("info"), move || writer.clone());
            set_default(Registry::default().with(spans::layer(tracer)).with(lines))
        }
    }

    fn telemetry() -> RequestTelemetry {
        RequestTelemetry {
            metrics: Arc::default(),
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            trusted_proxies: Vec::new(),
        }
    }

    #[tokio::test]
    async fn every_line_of_a_request_has_its_span_and_none_of_the_trace() {
        let log = Log::default();
        let _logging = log.install();
        let handler = async || {
            tracing::info!("in the handler");
            let call = spans::call(System::Redb, "lookup", "pages");
            call.run(async { tracing::info!("in a call") }).await;
            call.done("active", false);
            tokio::spawn(with_current_span(async { tracing::info!("in a task") })).await.unwrap();
        };
        let routes = Router::new().route("/{slug}", get(handler)).layer(from_fn_with_state(telemetry(), observe));
        routes.oneshot(Request::get("/secret").body(Body::empty()).unwrap()).await.unwrap();
        let lines = log.lines();
        let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(messages, ["in the handler", "in a call", "in a task", "answered"]);
        for line in lines {
            let span = line["span"].as_object().unwrap_or_else(|| panic!("{line}"));
            let fields: Vec<_> = span.keys().map(String::as_str).collect();
            assert_eq!(fields, ["method", "name", "request_id", "route"], "{line}");
            assert_eq!(span["name"], "request");
        }
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_before_its_answer_is_logged_and_counted() {
        let log = Log::default();
        let _logging = log.install();
        let telemetry = telemetry();
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
        // The server drops the future in the same way when the connection is ended.
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
        let counted =
            r#"_count{http_request_method="GET",http_route="/{slug}",error_type="abandoned",url_scheme="http"} 1"#;
        assert!(metrics.exposition().contains(counted), "{}", metrics.exposition());
    }

    #[tokio::test]
    async fn a_read_that_is_left_to_the_router_keeps_its_beginning_and_its_id() {
        let log = Log::default();
        let _logging = log.install();
        let telemetry = telemetry();
        let metrics = Arc::clone(&telemetry.metrics);
        let began = ReadBegan(telemetry.clock.monotonic());
        let reads = ReadyReads::new(telemetry.clone());
        let waiting = reads.in_flight(began, "GET", "/{slug}");
        waiting.run(async { tracing::info!("in the read") }).await;
        assert_eq!((metrics.active_requests.get(), log.lines().len()), (1, 1));
        let mut request = Request::get("/secret").body(Body::empty()).unwrap();
        waiting.pass_on(request.extensions_mut());
        assert_eq!((metrics.active_requests.get(), log.lines().len()), (0, 1), "nothing has ended");

        let handler = async || tracing::info!("in the handler");
        let routes = Router::new().route("/{slug}", get(handler)).layer(from_fn_with_state(telemetry, observe));
        let response = routes.oneshot(request).await.unwrap();
        let lines = log.lines();
        let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(messages, ["in the read", "in the handler", "answered"]);
        for line in lines {
            assert_eq!(line["span"]["request_id"], response.headers()[X_REQUEST_ID].to_str().unwrap(), "{line}");
        }
    }
}
