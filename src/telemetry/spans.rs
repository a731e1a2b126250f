//! Traces: a span for each request, and below it for each tool call, backend call and rendering.
//!
//! Libraries put the bytes that they work on into spans, so `layer` exports only the target `TRACES`, which the log
//! never shows. Names and attributes are from closed sets, after OpenTelemetry's conventions; `docs/monitoring.md`
//! lists them. Without a collector no span is made.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{borrow::Cow, collections::HashMap, future::Future};

use futures_util::future::Either;
use http::request::Parts;
use opentelemetry::trace::{FutureExt, SpanContext, Status, TraceContextExt};
use opentelemetry::{Context, propagation::TextMapPropagator};
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracer};
use tracing::{Metadata, info_span, level_filters::LevelFilter, subscriber::Interest};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, Registry, filter::DynFilterFn};

use handbill_pages::service::{CALL, TRACES};

/// The caller disconnected or stopped waiting.
const ABANDONED: &str = "abandoned";

/// Names the caller's span (W3C Trace Context). `tracestate`, in which a caller may write anything, is not read.
const TRACEPARENT: &str = "traceparent";

pub(super) const OTHER_METHOD: &str = "_OTHER";

/// `error.type` for `status`, or for no answer; `None` if the server made no error.
pub(super) fn error_type(status: Option<u16>) -> Option<Cow<'static, str>> {
    match status {
        None => Some(ABANDONED.into()),
        Some(..500) => None,
        Some(status) => Some(status.to_string().into()),
    }
}

/// `tracing` itself does not always know that spans are not wanted.
static ARE_EXPORTED: AtomicBool = AtomicBool::new(false);

pub(super) fn layer(tracer: SdkTracer) -> impl Layer<Registry> {
    ARE_EXPORTED.store(true, Ordering::Relaxed);
    let filter = DynFilterFn::new(|metadata, _| is_ours(metadata) && is_wanted(metadata));
    let filter = filter.with_max_level_hint(LevelFilter::INFO).with_callsite_filter(interest);
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_target(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(filter)
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TRACES
}

/// Only calls within a request are exported.
fn is_wanted(metadata: &Metadata<'_>) -> bool {
    metadata.name() != CALL || Context::map_current(TraceContextExt::has_active_span)
}

/// One place in the code makes calls within and without a request, so the filter is asked each time.
fn interest(metadata: &'static Metadata<'static>) -> Interest {
    if is_ours(metadata) { Interest::sometimes() } else { Interest::never() }
}

pub fn are_exported() -> bool {
    ARE_EXPORTED.load(Ordering::Relaxed)
}

/// Continues the trace in `head` if the peer is trusted. Any other peer would choose what is sampled, so it gets a new trace, with a
/// link to its own.
pub fn request(head: &Parts, is_trusted: bool, method: &'static str, route: &str, request_id: &str) -> Span {
    let span = info_span!(
        target: TRACES,
        parent: None,
        "request",
        otel.name = request_name(method, route),
        otel.kind = "server",
        http.request.method = method,
        http.route = (!route.is_empty()).then_some(route),
        url.scheme = "http",
        network.protocol.name = "http",
        network.protocol.version = protocol_version(head.version),
        handbill.request_id = request_id,
    );
    if !span.is_disabled() {
        let caller = caller(head.headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()));
        if is_trusted {
            set_parent(&span, caller);
        } else {
            span.add_link(caller.span().span_context().clone());
        }
    }
    Span(span)
}

/// Below the request with this head. The span that the message names is only a link: no proxy reads messages, so anyone may have
/// written it.
pub fn tool(head: &Parts, traceparent: Option<&str>, tool: &'static str) -> Span {
    let span = info_span!(
        target: TRACES,
        parent: None,
        "tool",
        otel.name = format!("tools/call {tool}"),
        otel.kind = "server",
        mcp.method.name = "tools/call",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
    );
    if !span.is_disabled() {
        set_parent(&span, head.extensions.get::<Context>().cloned().unwrap_or_default());
        span.add_link(caller(traceparent).span().span_context().clone());
    }
    Span(span)
}

/// Not valid if the caller names no span, or none that can be parsed.
fn caller(traceparent: Option<&str>) -> Context {
    let named: HashMap<_, _> = traceparent.map(|text| (TRACEPARENT.to_owned(), text.to_owned())).into_iter().collect();
    TraceContextPropagator::new().extract_with_context(&Context::new(), &named)
}

fn request_name(method: &'static str, route: &str) -> String {
    let verb = if method == OTHER_METHOD { "HTTP" } else { method };
    if route.is_empty() { verb.to_owned() } else { format!("{verb} {route}") }
}

fn protocol_version(version: http::Version) -> Option<&'static str> {
    match version {
        http::Version::HTTP_10 => Some("1.0"),
        http::Version::HTTP_11 => Some("1.1"),
        _ => None,
    }
}

fn set_parent(span: &tracing::Span, parent: Context) {
    // Fails only if the span is not exported, as in a test.
    let _ = span.set_parent(parent);
}

/// Ends when its outcome is recorded. Dropped earlier, it ends as abandoned.
#[derive(Debug)]
#[must_use = "the span ends with this value"]
pub struct Span(tracing::Span);

impl Span {
    pub fn ids(&self) -> Option<SpanContext> {
        Some(self.0.context().span().span_context().clone()).filter(SpanContext::is_valid)
    }

    /// In the request's extensions, for the spans below this one.
    pub fn context(&self) -> Context {
        self.0.context()
    }

    /// Spans in `work` are below this one.
    pub fn run<T>(&self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        if self.0.is_disabled() {
            return Either::Left(work);
        }
        // The log still shows `tracing`'s current span.
        Either::Right(work.with_context(self.0.context()))
    }

    pub fn set(&self, key: &'static str, value: &'static str) {
        self.0.set_attribute(key, value);
    }

    pub fn answered(self, status: u16) {
        self.0.set_attribute("http.response.status_code", i64::from(status));
        if let Some(error) = error_type(Some(status)) {
            self.0.set_attribute("error.type", error);
            self.0.set_status(Status::error(""));
        }
        self.end();
    }

    pub fn done(self, outcome: &'static str, is_error: bool) {
        self.set("handbill.outcome", outcome);
        if is_error {
            self.set("error.type", outcome);
            self.0.set_status(Status::error(""));
        }
        self.end();
    }

    /// Ends the exported span here: a shared read may hold the `tracing` span longer.
    fn end(&self) {
        self.0.context().span().end();
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.set("error.type", ABANDONED);
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use handbill_pages::ports::clock::SystemClock;
    use handbill_pages::ports::page_store::PageStore;
    use handbill_pages::ports::random::Random;
    use handbill_pages::service::{CallMetrics, Moderation, SharedStore};
    use handbill_pages::values::slug::Slug;
    use handbill_store_scylla::{Limits, ScyllaStore};
    use handbill_store_sqlite::SqliteStore;
    use http::Request;
    use opentelemetry::trace::{SpanKind, TracerProvider};
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
    use tokio::runtime::Builder;
    use tracing::Instrument;
    use tracing::subscriber::{DefaultGuard, set_default};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Ended(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Ended {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    /// The name of a span, its status, its `error.type` and the name of its parent.
    type Summary = (String, Status, Option<String>, Option<String>);

    impl Ended {
        /// Collects the spans of this thread until the guard is dropped.
        fn collect(&self) -> DefaultGuard {
            let provider = SdkTracerProvider::builder().with_simple_exporter(self.clone()).build();
            set_default(Registry::default().with(layer(provider.tracer("test"))))
        }

        fn summary(&self) -> Vec<Summary> {
            fn error(span: &SpanData) -> Option<String> {
                span.attributes.iter().find(|kv| kv.key.as_str() == "error.type").map(|kv| kv.value.to_string())
            }

            let spans = self.0.lock().unwrap();
            let parent = |span: &SpanData| {
                spans
                    .iter()
                    .find(|other| other.span_context.span_id() == span.parent_span_id)
                    .map(|p| p.name.to_string())
            };
            spans.iter().map(|span| (span.name.to_string(), span.status.clone(), error(span), parent(span))).collect()
        }
    }

    fn request_span() -> Span {
        let (head, ()) = Request::get("/").body(()).unwrap().into_parts();
        request(&head, false, "GET", "/", "1")
    }

    fn ended(name: &str, status: Status, error: Option<&str>, parent: Option<&str>) -> Summary {
        (name.to_owned(), status, error.map(str::to_owned), parent.map(str::to_owned))
    }

    #[test]
    fn an_answer_from_500_on_is_an_error_and_one_below_is_none() {
        let spans = Ended::default();
        let _collecting = spans.collect();
        for status in [200, 404, 499, 500, 503] {
            request_span().answered(status);
        }
        let (unset, error) =
            (|| ended("GET /", Status::Unset, None, None), |kind| ended("GET /", Status::error(""), Some(kind), None));
        assert_eq!(spans.summary(), [unset(), unset(), unset(), error("500"), error("503")]);
    }

    #[test]
    fn a_span_is_named_by_method_and_route_as_far_as_they_are_known() {
        let spans = Ended::default();
        let _collecting = spans.collect();
        let (head, ()) = Request::get("/").body(()).unwrap().into_parts();
        for (method, route) in [("GET", "/{slug}"), ("GET", ""), (OTHER_METHOD, "/{slug}"), (OTHER_METHOD, "")] {
            request(&head, false, method, route, "1").answered(200);
        }
        let names: Vec<_> = spans.summary().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["GET /{slug}", "GET", "HTTP /{slug}", "HTTP"]);
    }

    /// Makes one call of a store: of SQLite, or of a cluster that was not reached.
    async fn call(is_cluster: bool) {
        let (clock, random) = (Arc::new(SystemClock::new()), Random::System);
        let store: Arc<dyn PageStore> = if is_cluster {
            Arc::new(ScyllaStore::new(Limits::OF_REQUESTS, random.clone(), clock.clone()))
        } else {
            Arc::new(SqliteStore::temporary().unwrap())
        };
        let store = SharedStore::new(store, CallMetrics::default(), clock.clone());
        drop(Moderation::new(store, clock, random).inspect(&Slug::parse("a-page-22222222").unwrap()).await);
    }

    #[tokio::test]
    async fn a_call_is_below_the_request_that_makes_it() {
        let spans = Ended::default();
        let _collecting = spans.collect();
        let request = request_span();
        request.run(async { (call(false).await, call(true).await) }).await;
        request.answered(503);
        assert_eq!(
            spans.summary(),
            [
                ended("lookup pages", Status::Unset, None, Some("GET /")),
                ended("lookup pages", Status::error(""), Some("unavailable"), Some("GET /")),
                ended("GET /", Status::error(""), Some("503"), None),
            ]
        );
        let kinds: Vec<_> = spans.0.lock().unwrap().iter().map(|span| span.span_kind.clone()).collect();
        assert_eq!(kinds, [SpanKind::Internal, SpanKind::Client, SpanKind::Server]);
    }

    #[test]
    fn work_that_is_dropped_ends_its_spans_as_abandoned() {
        let spans = Ended::default();
        let _collecting = spans.collect();
        // The only thread that reads the store is busy, so the call has no answer.
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        let (busy, ends) = mpsc::channel::<()>();
        drop(runtime.spawn_blocking(move || ends.recv()));
        let request = request_span();
        runtime.block_on(request.run(async { assert!(futures_util::poll!(Box::pin(call(false))).is_pending()) }));
        drop((request, busy));
        assert_eq!(
            spans.summary(),
            [
                ended("lookup pages", Status::Unset, Some(ABANDONED), Some("GET /")),
                ended("GET /", Status::Unset, Some(ABANDONED), None),
            ]
        );
    }

    #[tokio::test]
    async fn a_call_outside_of_a_request_has_no_span() {
        let spans = Ended::default();
        let _collecting = spans.collect();
        call(false).await;
        assert_eq!(spans.summary(), []);
    }

    #[tokio::test]
    async fn only_the_services_spans_are_exported_without_source() {
        let spans = Ended::default();
        let _collecting = spans.collect();
        let request = request_span();
        let work = async {
            tracing::error!(target: TRACES, "an event");
            call(false).await;
        };
        request.run(work.instrument(info_span!("of another target", secret = 1))).await;
        request.answered(200);
        assert_eq!(spans.summary()[0], ended("lookup pages", Status::Unset, None, Some("GET /")));
        assert_eq!(spans.summary()[1], ended("GET /", Status::Unset, None, None));
        let spans = spans.0.lock().unwrap();
        assert_eq!(spans.len(), 2);
        assert!(spans.iter().all(|span| span.events.is_empty()));
        let mut keys: Vec<_> = spans[0].attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["db.collection.name", "db.operation.name", "db.system.name", "handbill.outcome"]);
    }

    #[test]
    fn without_a_collector_no_span_is_made() {
        let _subscriber = set_default(Registry::default().with(LevelFilter::TRACE));
        assert!(request_span().ids().is_none());
    }

    #[test]
    fn a_trusted_caller_is_the_parent_and_any_other_is_linked() {
        const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let spans = Ended::default();
        let _collecting = spans.collect();
        for (is_trusted, traceparent) in [(true, CALLER), (false, CALLER), (true, "00-0-0-01"), (false, "ä")] {
            let builder = Request::get("/").header(TRACEPARENT, traceparent).header("tracestate", "one=hbk_0123456789");
            let (head, ()) = builder.body(()).unwrap().into_parts();
            request(&head, is_trusted, "GET", "/", "1").answered(200);
        }
        let spans = spans.0.lock().unwrap();
        let seen = spans.iter().map(|span| {
            let is_callers = span.span_context.trace_id().to_string() == CALLER[3..35];
            (is_callers, span.links.iter().count())
        });
        assert_eq!(seen.collect::<Vec<_>>(), [(true, 0), (false, 1), (false, 0), (false, 0)]);
        assert!(spans.iter().all(|span| span.span_context.trace_state().header().is_empty()));
    }
}
