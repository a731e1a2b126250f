//! Traces: a span for each request, and below it one for each call of a tool, of a backend, and each rendering.
//!
//! What leaves the process is what is named here and nothing else. That is why spans are made with OpenTelemetry's own
//! interface and not with the bridge from `tracing`, which exports the fields of every span that any library opens.
//! Names and attributes are from closed sets, by OpenTelemetry's conventions for HTTP and databases: route templates,
//! never paths; no query, body, slug, key or address. `docs/observability.md` lists them.
//!
//! Without a collector no span is made, and what is left is a look at an [`Option`].

use std::borrow::Cow;
use std::future::Future;

use http::request::Parts;
use opentelemetry::trace::{
    FutureExt, Link, SpanBuilder, SpanId, SpanKind, Status, TraceContextExt, TraceId, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use tracing::Instrument;

pub use super::propagation::{CallerTrace, Trust};
use super::propagation::{link_to_stranger, parent_sampled_as};

/// What `error.type` says of work that was dropped before its end: its caller went away or had no more patience.
const ABANDONED: &str = "abandoned";

/// What `error.type` says of a call that was done without an answer of the server that it is for.
const UNAVAILABLE: &str = "unavailable";

/// What `http.request.method` says of a method that is not well known.
pub(super) const OTHER_METHOD: &str = "_OTHER";

/// What `error.type` says of a request that was answered with this status, or abandoned by its client before it was
/// answered; nothing where no error of the server's is to be told of.
pub(super) fn error_type(status: Option<u16>) -> Option<Cow<'static, str>> {
    match status {
        None => Some(ABANDONED.into()),
        // What a client does wrong is no error of the server's.
        Some(..500) => None,
        Some(status) => Some(status.to_string().into()),
    }
}

/// Makes spans, or none where there is no collector.
#[derive(Clone, Debug, Default)]
pub struct Tracer(pub(super) Option<SdkTracer>);

/// What stands behind a trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// `ScyllaDB` or Cassandra, which `OpenTelemetry` calls by the latter's name.
    Cassandra,
    /// The embedded store.
    Redb,
    /// Redis.
    Redis,
    /// The memory and the threads of this process.
    Process,
}

impl System {
    /// `db.system.name`, where this is a database.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Cassandra => Some("cassandra"),
            Self::Redb => Some("redb"),
            Self::Redis => Some("redis"),
            Self::Process => None,
        }
    }

    /// `db.collection.name`, where what is called keeps `target` in a table.
    fn collection(self, target: &'static str) -> Option<&'static str> {
        match self {
            Self::Cassandra | Self::Redb => Some(target),
            Self::Redis | Self::Process => None,
        }
    }

    fn kind(self) -> SpanKind {
        match self {
            Self::Cassandra | Self::Redis => SpanKind::Client,
            Self::Redb | Self::Process => SpanKind::Internal,
        }
    }
}

/// What identifies a span to those who look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceIds {
    /// The trace that it is part of.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// Whether it will be exported.
    pub is_sampled: bool,
}

impl Tracer {
    /// A tracer that makes no spans.
    pub fn off() -> Self {
        Self::default()
    }

    /// A tracer whose spans go where `provider` sends them.
    #[cfg(test)]
    pub(super) fn of(provider: &opentelemetry_sdk::trace::SdkTracerProvider) -> Self {
        use opentelemetry::trace::TracerProvider;
        Self(Some(provider.tracer("test")))
    }

    /// The span of a request with this head, which continues the trace that the head names (W3C Trace Context), or has a
    /// link to it, as `trust` says.
    ///
    /// `method` and `route` are what the metrics call them, `request_id` what the log does.
    pub fn request(&self, head: &Parts, trust: Trust, method: &'static str, route: &str, request_id: &str) -> Span {
        let Some(tracer) = &self.0 else { return Span::none() };
        let verb = if method == OTHER_METHOD { "HTTP" } else { method };
        // A request that no route takes has only its method for a name.
        let name = if route.is_empty() { verb.to_owned() } else { format!("{verb} {route}") };
        let mut attributes = vec![
            KeyValue::new("http.request.method", method),
            // That of the listener, which is plain: a proxy's word for another is not asked for.
            KeyValue::new("url.scheme", "http"),
            KeyValue::new("network.protocol.name", "http"),
            KeyValue::new("handbill.request_id", request_id.to_owned()),
        ];
        if !route.is_empty() {
            attributes.push(KeyValue::new("http.route", route.to_owned()));
        }
        if let Some(version) = protocol_version(head.version) {
            attributes.push(KeyValue::new("network.protocol.version", version));
        }
        let mut builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server).with_attributes(attributes);
        let caller = CallerTrace::in_headers(&head.headers).span();
        if trust == Trust::Continue {
            return Span::start(tracer, builder, &caller);
        }
        if caller.has_active_span() {
            builder = builder.with_links(vec![link_to_stranger(caller.span().span_context())]);
        }
        Span::start(tracer, builder, &Context::new())
    }

    /// The span of a call of the MCP tool named `tool` that came with the request in `within`.
    ///
    /// Where `caller` names a span of another trace than the request's, and the request's peer is a trusted proxy, it is
    /// part of that trace and linked to the request. Otherwise it is part of the request's trace and linked to `caller`.
    /// It is sampled if the request is in any case: no proxy looks into a message, so anyone may have written it.
    pub fn tool(&self, within: Option<&RequestSpan>, caller: CallerTrace<'_>, tool: &'static str) -> Span {
        let Some(tracer) = &self.0 else { return Span::none() };
        let request = within.and_then(|within| within.context.clone()).unwrap_or_default();
        let caller = caller.span();
        let builder =
            SpanBuilder::from_name(format!("tools/call {tool}")).with_kind(SpanKind::Server).with_attributes([
                KeyValue::new("mcp.method.name", "tools/call"),
                KeyValue::new("gen_ai.operation.name", "execute_tool"),
                KeyValue::new("gen_ai.tool.name", tool),
            ]);
        let of_request = request.span().span_context().clone();
        let of_caller = caller.span().span_context().clone();
        if !of_caller.is_valid() || of_caller.trace_id() == of_request.trace_id() {
            return Span::start(tracer, builder, &request);
        }
        if of_request.is_valid() && within.is_some_and(|within| within.trust == Trust::Continue) {
            let parent = parent_sampled_as(&of_caller, of_request.is_sampled());
            return Span::start(tracer, builder.with_links(vec![Link::with_context(of_request)]), &parent);
        }
        Span::start(tracer, builder.with_links(vec![link_to_stranger(&of_caller)]), &request)
    }

    /// The span of one `operation` on `target` within the request that is being answered; none outside of one.
    pub fn call(&self, system: System, operation: &'static str, target: &'static str) -> Span {
        let Some(tracer) = &self.0 else { return Span::none() };
        let parent = Context::current();
        if !parent.has_active_span() {
            return Span::none();
        }
        let mut attributes = Vec::new();
        if let Some(name) = system.name() {
            attributes.push(KeyValue::new("db.system.name", name));
            attributes.push(KeyValue::new("db.operation.name", operation));
        }
        if let Some(name) = system.collection(target) {
            attributes.push(KeyValue::new("db.collection.name", name));
        }
        let builder = SpanBuilder::from_name(format!("{operation} {target}")).with_kind(system.kind());
        Span::start(tracer, builder.with_attributes(attributes), &parent)
    }
}

/// `network.protocol.version`, of the versions that the server speaks.
fn protocol_version(version: http::Version) -> Option<&'static str> {
    match version {
        http::Version::HTTP_10 => Some("1.0"),
        http::Version::HTTP_11 => Some("1.1"),
        _ => None,
    }
}

/// The request that is being answered, for what is done for it in a task that somebody else starts. It travels in the
/// request's extensions.
#[derive(Clone, Debug)]
pub struct RequestSpan {
    context: Option<Context>,
    trust: Trust,
    log: tracing::Span,
}

impl RequestSpan {
    /// Does `work`, whose spans and lines in the log are then those of the request.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.context {
            Some(context) => work.with_context(context.clone()).instrument(self.log.clone()).await,
            None => work.instrument(self.log.clone()).await,
        }
    }
}

/// A span that ends when this is finished, or dropped, which says that its work was abandoned.
#[derive(Debug)]
#[must_use = "the span ends with this value"]
pub struct Span {
    context: Option<Context>,
}

impl Span {
    fn none() -> Self {
        Self { context: None }
    }

    fn start(tracer: &SdkTracer, builder: SpanBuilder, parent: &Context) -> Self {
        let span = tracer.build_with_context(builder, parent);
        Self { context: Some(parent.with_span(span)) }
    }

    /// What it is found by, if there is a span.
    pub fn ids(&self) -> Option<TraceIds> {
        let context = self.context.as_ref()?.span().span_context().clone();
        let (trace_id, span_id) = (context.trace_id(), context.span_id());
        Some(TraceIds { trace_id, span_id, is_sampled: context.is_sampled() })
    }

    /// What is to travel with a request that has this span, a caller of this `trust`, and `log` in the log.
    pub fn within(&self, trust: Trust, log: tracing::Span) -> RequestSpan {
        RequestSpan { context: self.context.clone(), trust, log }
    }

    /// Does `work`, whose spans are then below this one.
    pub async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.context {
            Some(context) => work.with_context(context.clone()).await,
            None => work.await,
        }
    }

    /// Adds an attribute. Keys and values are from closed sets.
    pub fn set(&self, key: &'static str, value: &'static str) {
        if let Some(context) = &self.context {
            context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Ends the span of a request that was answered with `status`.
    pub fn answered(mut self, status: u16) {
        let Some(context) = self.context.take() else { return };
        let span = context.span();
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        if let Some(error) = error_type(Some(status)) {
            span.set_attribute(KeyValue::new("error.type", error));
            span.set_status(Status::error(""));
        }
        span.end();
    }

    /// Ends the span of a call of a tool that had this outcome, which stands for this status.
    pub fn called(self, outcome: &'static str, status: u16) {
        if status >= 500 { self.failed(outcome) } else { self.done(outcome) }
    }

    /// Ends the span of a call that had this outcome.
    pub fn done(mut self, outcome: &'static str) {
        if let Some(context) = self.context.take() {
            context.span().set_attribute(KeyValue::new("handbill.outcome", outcome));
            context.span().end();
        }
    }

    /// Ends the span of a call that failed in this way.
    pub fn failed(mut self, outcome: &'static str) {
        if let Some(context) = self.context.take() {
            let span = context.span();
            span.set_attributes([KeyValue::new("handbill.outcome", outcome), KeyValue::new("error.type", outcome)]);
            span.set_status(Status::error(""));
            span.end();
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            // Others may hold the context still, a read that several wait for among them.
            context.span().set_attribute(KeyValue::new("error.type", ABANDONED));
            context.span().end();
        }
    }
}

/// Says of the call that is being made within the current span that what it asks did not answer. What is done without
/// that answer is still the outcome of the call.
pub fn mark_unavailable() {
    let context = Context::current();
    context.span().set_attribute(KeyValue::new("error.type", UNAVAILABLE));
    context.span().set_status(Status::error(""));
}

/// Lets `work`, which is to become a task of its own, take along the span that it is begun in.
pub fn with_current_span<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    work.with_current_context()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Request;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};

    use super::*;

    /// Keeps the spans that have ended.
    #[derive(Clone, Debug, Default)]
    struct Ended(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Ended {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    impl Ended {
        fn tracer(&self) -> Tracer {
            Tracer::of(&SdkTracerProvider::builder().with_simple_exporter(self.clone()).build())
        }

        /// The name of each, its status, its `error.type` and the name of its parent.
        fn summary(&self) -> Vec<(String, Status, Option<String>, Option<String>)> {
            let spans = self.0.lock().unwrap();
            let error = |span: &SpanData| {
                span.attributes.iter().find(|kv| kv.key.as_str() == "error.type").map(|kv| kv.value.to_string())
            };
            let parent = |span: &SpanData| {
                spans
                    .iter()
                    .find(|other| other.span_context.span_id() == span.parent_span_id)
                    .map(|p| p.name.to_string())
            };
            spans.iter().map(|span| (span.name.to_string(), span.status.clone(), error(span), parent(span))).collect()
        }
    }

    fn request_span(tracer: &Tracer) -> Span {
        let (head, ()) = Request::get("/").body(()).unwrap().into_parts();
        tracer.request(&head, Trust::Link, "GET", "/", "1")
    }

    fn ended(
        name: &str,
        status: Status,
        error: Option<&str>,
        parent: Option<&str>,
    ) -> (String, Status, Option<String>, Option<String>) {
        (name.to_owned(), status, error.map(str::to_owned), parent.map(str::to_owned))
    }

    #[test]
    fn an_answer_from_500_on_is_an_error_and_one_below_is_none() {
        let spans = Ended::default();
        let tracer = spans.tracer();
        for status in [200, 404, 499, 500, 503] {
            request_span(&tracer).answered(status);
        }
        let (unset, error) =
            (|| ended("GET /", Status::Unset, None, None), |kind| ended("GET /", Status::error(""), Some(kind), None));
        assert_eq!(spans.summary(), [unset(), unset(), unset(), error("500"), error("503")]);
    }

    #[test]
    fn a_span_is_named_by_method_and_route_as_far_as_they_are_known() {
        let spans = Ended::default();
        let (head, ()) = Request::get("/").body(()).unwrap().into_parts();
        for (method, route) in [("GET", "/{slug}"), ("GET", ""), (OTHER_METHOD, "/{slug}"), (OTHER_METHOD, "")] {
            spans.tracer().request(&head, Trust::Link, method, route, "1").answered(200);
        }
        let names: Vec<_> = spans.summary().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["GET /{slug}", "GET", "HTTP /{slug}", "HTTP"]);
    }

    #[tokio::test]
    async fn a_call_is_below_the_request_that_makes_it_also_from_a_task_of_its_own() {
        let spans = Ended::default();
        let tracer = spans.tracer();
        let request = request_span(&tracer);
        let calls = async {
            tracer.call(System::Redis, "decide", "limits").done("admitted");
            let tracer = tracer.clone();
            let read = async move { tracer.call(System::Cassandra, "lookup", "pages").failed("unavailable") };
            tokio::spawn(with_current_span(read)).await.unwrap();
        };
        request.around(calls).await;
        request.answered(503);
        assert_eq!(
            spans.summary(),
            [
                ended("decide limits", Status::Unset, None, Some("GET /")),
                ended("lookup pages", Status::error(""), Some("unavailable"), Some("GET /")),
                ended("GET /", Status::error(""), Some("503"), None),
            ]
        );
        assert!(spans.0.lock().unwrap()[..2].iter().all(|span| span.span_kind == SpanKind::Client));
    }

    #[tokio::test]
    async fn work_that_is_dropped_ends_its_spans_as_abandoned() {
        let spans = Ended::default();
        let tracer = spans.tracer();
        let request = request_span(&tracer);
        let work = async {
            let call = tracer.call(System::Redb, "lookup", "pages");
            call.around(std::future::pending::<()>()).await;
        };
        let () = request.around(async { assert!(futures_util::poll!(Box::pin(work)).is_pending()) }).await;
        drop(request);
        assert_eq!(
            spans.summary(),
            [
                ended("lookup pages", Status::Unset, Some(ABANDONED), Some("GET /")),
                ended("GET /", Status::Unset, Some(ABANDONED), None),
            ]
        );
    }

    #[test]
    fn a_call_outside_of_a_request_has_no_span() {
        let spans = Ended::default();
        spans.tracer().call(System::Redb, "lookup", "pages").done("absent");
        assert_eq!(spans.summary(), []);
    }
}
