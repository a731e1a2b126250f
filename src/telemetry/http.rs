//! Observes every request: its id, its span, its line in the log, its metrics.
//!
//! The log has the route's template and never the path or the query, since either may hold a key that somebody
//! pasted into the wrong place.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, Method};
use tracing::Instrument;
use tracing::field::display;

use super::metrics::{Metrics, RequestLabels, TraceLabel};
use super::traces::{TraceIds, Tracer};
use crate::clock::SharedClock;
use crate::entropy::SharedEntropy;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What observing needs.
#[derive(Clone)]
pub struct RequestTelemetry {
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
    /// What measures them.
    pub clock: SharedClock,
    /// What their ids are drawn from.
    pub entropy: SharedEntropy,
    /// What makes their spans.
    pub tracer: Tracer,
}

/// Takes one off the number of requests in flight, also when the client goes away and the request is dropped.
struct InFlight(Arc<Metrics>);

impl InFlight {
    fn enter(metrics: &Arc<Metrics>) -> Self {
        metrics.active_requests.inc();
        Self(Arc::clone(metrics))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.active_requests.dec();
    }
}

/// Lets the request pass and records what became of it. Its id is in the answer and in every event on the way.
pub async fn observe(State(telemetry): State<RequestTelemetry>, request: Request, next: Next) -> Response {
    let started = telemetry.clock.monotonic();
    let id = request_id(&telemetry);
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let in_flight = InFlight::enter(&telemetry.metrics);

    let (head, body) = request.into_parts();
    let span = telemetry.tracer.request(&head, method, &route, &id);
    let ids = span.ids();
    let mut request = Request::from_parts(head, body);

    let log_span = tracing::info_span!("request", request_id = id, method, route);
    request.extensions_mut().insert(span.within(log_span.clone()));
    let mut response = span.around(next.run(request)).instrument(log_span.clone()).await;

    drop(in_flight);
    let took = telemetry.clock.monotonic().saturating_sub(started).as_secs_f64();
    let status = response.status().as_u16();
    span.answered(status);
    log_span.in_scope(|| {
        let (trace_id, span_id) = (ids.map(|ids| display(ids.trace_id)), ids.map(|ids| display(ids.span_id)));
        tracing::info!(status, duration_seconds = took, trace_id, span_id, "answered");
    });
    let labels = RequestLabels { http_request_method: method, http_route: route, http_response_status_code: status };
    telemetry.metrics.requests.get_or_create(&labels).observe(took, ids.and_then(exemplar), None);
    response.headers_mut().insert(X_REQUEST_ID, HeaderValue::try_from(id).expect("it is hexadecimal"));
    response
}

/// What leads from a bucket to a trace that was counted in it, where that trace can be looked at.
fn exemplar(ids: TraceIds) -> Option<TraceLabel> {
    ids.is_sampled.then(|| TraceLabel { trace_id: ids.trace_id.to_string() })
}

/// 16 hexadecimal digits, enough to find a request in a year of logs.
fn request_id(telemetry: &RequestTelemetry) -> String {
    let mut bytes = [0; 8];
    telemetry.entropy.fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
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
        _ => "_OTHER",
    }
}
