//! Observes every request: its id, span, log line and metrics.
//!
//! The log has the route's template, never the path or query, which may hold a pasted key.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{extract::MatchedPath, response::Response};
use http::{HeaderName, HeaderValue, Method, StatusCode, request::Parts};
use ipnet::IpNet;
use tokio::task_local;
use tracing::field::display;

use super::metrics::{Metrics, RequestLabels, TraceLabels};
use super::spans::{self, OTHER_METHOD, Span, error_type};
use handbill_pages::ports::clock::SharedClock;
use handbill_pages::ports::random::{Random, hex_id};
use handbill_pages::values::client::Peer;

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

task_local! {
    static REQUEST_ID: String;
}

pub(super) fn request_id() -> Option<String> {
    REQUEST_ID.try_with(Clone::clone).ok()
}

pub struct RequestTelemetry {
    pub metrics: Arc<Metrics>,
    pub clock: SharedClock,
    pub random: Random,
    pub trusted_proxies: Vec<IpNet>,
}

/// The log's words for an error, in the response's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorName {
    pub code: &'static str,
    pub refused_by: Option<&'static str>,
}

/// A request until its answer or its connection's end. Dropping it records the end.
pub struct Exchange {
    telemetry: Arc<RequestTelemetry>,
    began: Duration,
    id: String,
    method: &'static str,
    route: Option<MatchedPath>,
    trace: Option<Span>,
    status: Option<u16>,
    part: Option<RoutePart>,
    error: Option<ErrorName>,
}

/// Replaces the route's template in labels. Travels in the response's extensions.
#[derive(Clone, Copy, Debug)]
pub struct RoutePart(pub &'static str);

impl RequestTelemetry {
    pub fn begin(self: &Arc<Self>, head: &mut Parts) -> Exchange {
        let route = head.extensions.get::<MatchedPath>().cloned();
        let template = route.as_ref().map_or("", MatchedPath::as_str);
        let began = self.clock.monotonic();
        let id = hex_id(&self.random);
        let method = method_label(&head.method);
        let trace = spans::are_exported().then(|| {
            let is_trusted = head.extensions.get::<Peer>().is_some_and(|peer| peer.is_in(&self.trusted_proxies));
            let span = spans::request(head, is_trusted, method, template, &id);
            head.extensions.insert(span.context());
            span
        });
        self.metrics.active_requests.inc();
        Exchange { telemetry: Arc::clone(self), began, id, method, route, trace, status: None, part: None, error: None }
    }
}

impl Exchange {
    /// Log lines in `work` have the request's id, and spans are below the request's.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let work = REQUEST_ID.scope(self.id.clone(), work);
        match &self.trace {
            Some(trace) => trace.run(work).await,
            None => work.await,
        }
    }

    pub fn answered(mut self, response: &mut Response) {
        let status = response.status().as_u16();
        self.status = Some(status);
        self.part = response.extensions_mut().remove();
        self.error = response.extensions_mut().remove();
        // A cache would overwrite the id of the stored response with the 304's.
        if response.status() != StatusCode::NOT_MODIFIED {
            response.headers_mut().insert(X_REQUEST_ID, HeaderValue::try_from(&self.id).expect("it is hexadecimal"));
        }
    }

    fn record(&mut self) {
        let took = self.telemetry.clock.monotonic().saturating_sub(self.began).as_secs_f64();
        let error = error_type(self.status);
        let ids = self.trace.as_ref().and_then(Span::ids);
        if let (Some(status), Some(trace)) = (self.status, self.trace.take()) {
            trace.answered(status);
        }
        let status = self.status;
        let error_type = error.as_deref();
        // A trace that is not sampled is not exported, so nobody could look it up.
        let sampled = ids.as_ref().filter(|ids| ids.is_sampled());
        let exemplar = sampled.map(|ids| TraceLabels { trace_id: ids.trace_id().to_string() });
        let trace_id = ids.as_ref().map(|ids| display(ids.trace_id()));
        let span_id = ids.as_ref().map(|ids| display(ids.span_id()));
        let code = self.error.map(|error| error.code);
        let refused_by = self.error.and_then(|error| error.refused_by);
        let end = if status.is_some() { "answered" } else { "abandoned" };
        tracing::info!(
            request_id = self.id,
            method = self.method,
            route = self.route.as_ref().map_or("", MatchedPath::as_str),
            status,
            error_type,
            error = code,
            refused_by,
            duration_seconds = took,
            trace_id,
            span_id,
            "{end}"
        );
        let labels = RequestLabels {
            http_request_method: self.method,
            http_route: match (self.part, &self.route) {
                (Some(RoutePart(label)), _) => label.to_owned(),
                (None, Some(route)) => route.as_str().to_owned(),
                (None, None) => String::new(),
            },
            http_response_status_code: self.status,
            error_type: error,
            url_scheme: "http",
        };
        self.telemetry.metrics.requests.get_or_create(&labels).observe(took, exemplar, None);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.telemetry.metrics.active_requests.dec();
        self.record();
    }
}

/// Methods that clients invent share one label.
const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "QUERY"];

fn method_label(method: &Method) -> &'static str {
    METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER_METHOD)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::extract::{Request, State};
    use axum::middleware::{Next, from_fn_with_state};
    use axum::routing::{any, get};
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
    use tokio::sync::Notify;
    use tower::ServiceExt;
    use tracing::subscriber::{DefaultGuard, set_default};
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::telemetry::logs::tests::Log;
    use handbill_pages::ports::clock::SystemClock;
    use handbill_pages::ports::random::Random;

    /// Logs to `log` as the process does, with spans, until the guard is dropped.
    fn logging_to(log: &Log) -> DefaultGuard {
        let tracer = SdkTracerProvider::default().tracer("test");
        set_default(Registry::default().with(spans::layer(tracer)).with(log.layer("info", Duration::default)))
    }

    async fn observe(State(telemetry): State<Arc<RequestTelemetry>>, request: Request, next: Next) -> Response {
        let (mut head, body) = request.into_parts();
        let observed = telemetry.begin(&mut head);
        let mut response = observed.run(next.run(Request::from_parts(head, body))).await;
        observed.answered(&mut response);
        response
    }

    async fn send(telemetry: &Arc<RequestTelemetry>, routes: Router, request: Request) -> Response {
        let routes = routes.layer(from_fn_with_state(Arc::clone(telemetry), observe));
        routes.oneshot(request).await.unwrap()
    }

    fn telemetry() -> Arc<RequestTelemetry> {
        Arc::new(RequestTelemetry {
            metrics: Arc::default(),
            clock: Arc::new(SystemClock::new()),
            random: Random::System,
            trusted_proxies: Vec::new(),
        })
    }

    #[tokio::test]
    async fn every_line_of_a_request_has_its_id_and_no_span() {
        async fn handler() {
            tracing::info!("in the handler");
        }

        let log = Log::default();
        let _logging = logging_to(&log);
        let routes = Router::new().route("/{slug}", get(handler));
        send(&telemetry(), routes, Request::get("/secret").body(Body::empty()).unwrap()).await;
        let lines = log.lines();
        let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(messages, ["in the handler", "answered"]);
        assert_eq!(lines[0]["request_id"], lines[1]["request_id"]);
        for line in lines {
            assert!(line["request_id"].as_str().is_some_and(|id| id.len() == 16), "{line}");
            assert!(line.get("span").is_none(), "{line}");
        }
    }

    #[tokio::test]
    async fn a_requests_line_has_its_error_and_what_refused_it() {
        let log = Log::default();
        let _logging = logging_to(&log);
        let telemetry = telemetry();
        let refused = ErrorName { code: "unavailable", refused_by: Some("pause") };
        let lost = ErrorName { code: "not_found", refused_by: None };
        for (status, error) in [(503, Some(refused)), (404, Some(lost)), (200, None)] {
            let (mut head, ()) = Request::get("/secret").body(()).unwrap().into_parts();
            let observed = telemetry.begin(&mut head);
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            error.map(|error| response.extensions_mut().insert(error));
            observed.answered(&mut response);
        }
        let seen: Vec<_> = log.lines().iter().map(|line| (line["error"].clone(), line["refused_by"].clone())).collect();
        let none = serde_json::Value::Null;
        assert_eq!(
            seen,
            [("unavailable".into(), "pause".into()), ("not_found".into(), none.clone()), (none.clone(), none)]
        );
    }

    #[tokio::test]
    async fn a_request_dropped_before_its_answer_is_logged_and_counted() {
        let log = Log::default();
        let _logging = logging_to(&log);
        let telemetry = telemetry();
        let metrics = Arc::clone(&telemetry.metrics);
        let begun = Arc::new(Notify::new());
        let beginning = Arc::clone(&begun);
        let routes = Router::new().route(
            "/{slug}",
            get(async move || {
                beginning.notify_one();
                std::future::pending::<()>().await;
            }),
        );
        let request = Request::get("/secret?sesame").body(Body::empty()).unwrap();
        let mut answering = Box::pin(send(&telemetry, routes, request));
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
        assert_eq!((&line["error_type"], &line["status"]), (&"abandoned".into(), &serde_json::Value::Null));
        assert_eq!((&line["method"], &line["route"]), (&"GET".into(), &"/{slug}".into()));
        assert!(line["request_id"].as_str().is_some_and(|id| id.len() == 16), "{line}");
        assert!(line["duration_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{line}");
        assert!(line["trace_id"].as_str().is_some_and(|id| id.len() == 32), "{line}");
        assert!(!line.to_string().contains("secret") && !line.to_string().contains("sesame"), "{line}");
        let counted = r#"_count{http_request_method="GET",http_route="/{slug}",http_response_status_code="",error_type="abandoned",url_scheme="http"} 1"#;
        assert!(metrics.exposition().contains(counted), "{}", metrics.exposition());
    }

    #[tokio::test]
    async fn only_a_trace_that_is_exported_is_the_exemplar_of_its_bucket() {
        for (sampler, is_exported) in [(Sampler::AlwaysOn, true), (Sampler::AlwaysOff, false)] {
            let log = Log::default();
            let tracer = SdkTracerProvider::builder().with_sampler(sampler).build().tracer("test");
            let registry = Registry::default().with(spans::layer(tracer)).with(log.layer("info", Duration::default));
            let _logging = set_default(registry);
            let telemetry = telemetry();
            let routes = Router::new().route("/{slug}", get(async || ()));
            send(&telemetry, routes, Request::get("/secret").body(Body::empty()).unwrap()).await;
            let trace_id = log.lines()[0]["trace_id"].as_str().unwrap().to_owned();
            let scrape = telemetry.metrics.openmetrics();
            assert!(scrape.ends_with("# EOF\n"), "{scrape}");
            let exemplar = format!(" # {{trace_id=\"{trace_id}\"}} ");
            let buckets = scrape.lines().filter(|line| line.contains(&exemplar));
            let buckets: Vec<_> = buckets.map(|line| line.split('{').next().unwrap()).collect();
            assert_eq!(buckets, vec!["http_server_request_duration_seconds_bucket"; usize::from(is_exported)]);
            assert!(!telemetry.metrics.exposition().contains("trace_id"), "text 0.0.4 has no exemplars");
        }
    }

    #[tokio::test]
    async fn every_answer_of_a_route_is_counted_by_its_method_and_status() {
        // `tracing` remembers of each place in the code whether its events are wanted. It may ask the thread that comes there first,
        // and a thread without a log would hide the lines of the tests beside it.
        let _logging = logging_to(&Log::default());
        let telemetry = telemetry();
        for (method, status) in
            [("GET", 200), ("GET", 200), ("POST", 200), ("PATCH", 200), ("HEAD", 200), ("GET", 304), ("GET", 404)]
        {
            let metrics = Arc::clone(&telemetry.metrics);
            let answer = async move || {
                assert_eq!(metrics.active_requests.get(), 1);
                StatusCode::from_u16(status).unwrap()
            };
            let request = Request::builder().method(method).uri("/secret").body(Body::empty()).unwrap();
            let response = send(&telemetry, Router::new().route("/{slug}", any(answer)), request).await;
            assert_eq!(response.headers().contains_key(X_REQUEST_ID), status != 304);
            assert_eq!(telemetry.metrics.active_requests.get(), 0);
        }
        let scrape = telemetry.metrics.exposition();
        for (method, status, count) in
            [("GET", 200, 2), ("POST", 200, 1), ("PATCH", 200, 1), ("HEAD", 200, 1), ("GET", 304, 1), ("GET", 404, 1)]
        {
            let counted = format!(
                r#"_count{{http_request_method="{method}",http_route="/{{slug}}",http_response_status_code="{status}",error_type="",url_scheme="http"}} {count}"#
            );
            assert!(scrape.contains(&counted), "{scrape}");
        }
    }
}
