//! Sends spans to a collector, as OTLP in protobuf over HTTP. No request waits for the collector.
//!
//! A finished span is put into a bounded queue, and a thread sends the spans in batches. Spans that find the queue full
//! are dropped. Spans that the collector does not accept within 5 s are lost. Dropped and lost spans are counted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor,
};
use prometheus_client::metrics::counter::Counter;
use rand::RngExt;
use thiserror::Error;
use tokio::runtime::Handle;

use crate::config::Traces;
use crate::outbound::{Limits, Outbound};
use crate::telemetry::labels::SpanLabels;
use crate::telemetry::metrics::Metrics;
use handbill_core::log_throttle::LogThrottle;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::random::Random;

/// Maximum number of spans that wait or are being sent. A span takes about 1 KB.
const MAX_QUEUED_SPANS: usize = 4096;

/// Maximum number of spans in one message.
const MAX_BATCH_SPANS: usize = 512;

/// How long a span waits for other spans that are sent in the same message.
const BATCH_DELAY: Duration = Duration::from_secs(5);

/// Longest time that the process waits at its end for the last spans to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the collector may take for one message, retries included.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes that are read of a collector's answer. Answers of collectors are short.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Least time between two warnings of failed exports.
const WARNING_PAUSE: Duration = Duration::from_mins(1);

#[derive(Debug, Error)]
pub enum ExportError {
    #[error("the certificates of this machine cannot be read ({0}): install them, or name them in SSL_CERT_FILE")]
    Certificates(std::io::Error),
    /// The exporter refuses the settings. The exporter also reads variables that begin with `OTEL_EXPORTER_OTLP_`.
    #[error("traces cannot be exported with these settings ({0})")]
    Exporter(#[from] ExporterBuildError),
}

/// The exporter, which sends the last spans when the process ends.
#[derive(Debug)]
pub struct Exports(SdkTracerProvider);

/// A tracer whose spans are posted to the address of `traces`. This function must be called within the runtime that will
/// send the spans.
pub fn start(
    traces: &Traces,
    metrics: &Arc<Metrics>,
    clock: &SharedClock,
    random: &Random,
) -> Result<(SdkTracer, Exports), ExportError> {
    let builder = opentelemetry_otlp::SpanExporter::builder().with_http();
    let limits = Limits { time: EXPORT_TIMEOUT, answer_bytes: MAX_ANSWER_BYTES };
    let outbound = if traces.address.scheme() == "https" {
        Outbound::with_tls(limits).map_err(ExportError::Certificates)?
    } else {
        Outbound::without_tls(limits)
    };
    let exporter = builder
        .with_http_client(CollectorClient { outbound, runtime: Handle::current() })
        .with_endpoint(traces.address.as_str())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .build()?;
    let waiting = Arc::new(AtomicUsize::new(0));
    let outcome = |outcome| metrics.spans.get_or_create_owned(&SpanLabels { outcome });
    let exporter = CountingExporter {
        inner: exporter,
        waiting: Arc::clone(&waiting),
        exported: outcome("exported"),
        failed: outcome("failed"),
        clock: Arc::clone(clock),
        warning: LogThrottle::new(WARNING_PAUSE),
    };
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_QUEUED_SPANS)
        .with_max_export_batch_size(MAX_BATCH_SPANS)
        .with_scheduled_delay(BATCH_DELAY)
        .build();
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    // The builder has the sampler that the variables of the SDK name.
    let provider = SdkTracerProvider::builder()
        .with_resource(resource(traces.service_name.as_deref(), random))
        .with_span_processor(Bounded { next: batches, waiting, dropped: outcome("dropped") })
        .build();
    Ok((provider.tracer("handbill"), Exports(provider)))
}

/// A client that runs in `runtime`: the thread that exports spans has no runtime of its own.
#[derive(Clone, Debug)]
struct CollectorClient {
    outbound: Outbound,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let outbound = self.outbound.clone();
        Ok(self.runtime.spawn(async move { outbound.send(request).await }).await??)
    }
}

impl Exports {
    /// Sends the spans that still wait, for at most `time` and at most 5 s. Spans that are not sent by then are lost,
    /// and so are spans that end later.
    pub async fn flush(self, time: Duration) {
        let time = time.min(FLUSH_TIMEOUT);
        let flushed = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(time)).await;
        if let Ok(Err(error)) = flushed {
            tracing::warn!(%error, "the last spans could not be exported");
        }
    }
}

/// The attributes that describe the process in every message. `OTEL_RESOURCE_ATTRIBUTES` adds attributes and overrides
/// these, except that `service_name` overrides the name there.
fn resource(service_name: Option<&str>, mut random: &Random) -> Resource {
    let own = [
        KeyValue::new("service.name", "handbill"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", format!("{:032x}", random.random::<u128>())),
    ];
    Resource::builder_empty()
        .with_attributes(own)
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()))
        .with_attributes(service_name.map(|name| KeyValue::new("service.name", name.to_owned())))
        .build()
}

/// Bounds the queue to [`MAX_QUEUED_SPANS`] and counts the spans that are dropped. The processor itself does not count
/// them.
#[derive(Debug)]
struct Bounded {
    next: BatchSpanProcessor,
    waiting: Arc<AtomicUsize>,
    dropped: Counter,
}

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.next.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let add = |waiting| (waiting < MAX_QUEUED_SPANS).then_some(waiting + 1);
        if self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok() {
            self.next.on_end(span);
        } else {
            self.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}

/// Counts exported and lost spans, and logs a warning about lost spans at most once per [`WARNING_PAUSE`].
struct CountingExporter<E> {
    inner: E,
    waiting: Arc<AtomicUsize>,
    exported: Counter,
    failed: Counter,
    clock: SharedClock,
    warning: LogThrottle,
}

impl<E: SpanExporter> SpanExporter for CountingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.inner.export(batch).await;
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let counter = if exported.is_ok() { &self.exported } else { &self.failed };
        counter.inc_by(spans as u64);
        if let Err(error) = &exported
            && self.warning.allow(self.clock.monotonic())
        {
            tracing::warn!(%error, spans, "spans could not be exported and are lost; requests are not affected");
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: fmt::Debug> fmt::Debug for CountingExporter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountingExporter").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use opentelemetry::trace::Tracer as _;

    use super::*;

    /// Accepts no span until it is released.
    #[derive(Debug)]
    struct Stuck(std::sync::Mutex<mpsc::Receiver<()>>);

    impl SpanExporter for Stuck {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            let _ = self.0.lock().expect("no holder of the lock panics").recv();
            Ok(())
        }
    }

    #[test]
    fn a_span_that_finds_the_queue_full_is_dropped_and_counted() {
        let (release, released) = mpsc::channel();
        let config = BatchConfigBuilder::default().with_max_queue_size(MAX_QUEUED_SPANS).build();
        let next = BatchSpanProcessor::builder(Stuck(released.into())).with_batch_config(config).build();
        let dropped = Counter::default();
        let bounded = Bounded { next, waiting: Arc::default(), dropped: dropped.clone() };
        let provider = SdkTracerProvider::builder().with_span_processor(bounded).build();
        let tracer = provider.tracer("test");
        for _ in 0..MAX_QUEUED_SPANS + 7 {
            drop(tracer.start("span"));
        }
        assert_eq!(dropped.get(), 7);
        drop(release);
    }
}
