//! Sends spans to a collector, as OTLP in protobuf over HTTP. No request waits for the collector.
//!
//! A finished span is put into a bounded queue, and a thread sends the spans in batches. Spans that find the queue full
//! are dropped. Spans that the collector does not accept within 5 s are lost. The library logs both.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider};
use rand::RngExt;
use thiserror::Error;
use ureq::Agent;
use url::Url;

use crate::outbound::agent;
use handbill_pages::ports::random::Random;

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
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// The exporter refuses the settings. It also reads variables that begin with `OTEL_EXPORTER_OTLP_`.
#[derive(Debug, Error)]
#[error("traces cannot be exported with these settings ({0})")]
pub struct ExportError(#[from] ExporterBuildError);

/// The exporter, which sends the last spans when the process ends.
#[derive(Debug)]
pub struct Exports(SdkTracerProvider);

/// A tracer whose spans are posted to `address`.
pub fn start(address: &Url, random: &Random) -> Result<(SdkTracer, Exports), ExportError> {
    let builder = opentelemetry_otlp::SpanExporter::builder().with_http();
    let exporter = builder
        .with_http_client(CollectorClient(agent(EXPORT_TIMEOUT)))
        .with_endpoint(address.as_str())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .build()?;
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_QUEUED_SPANS)
        .with_max_export_batch_size(MAX_BATCH_SPANS)
        .with_scheduled_delay(BATCH_DELAY)
        .build();
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    // The builder has the sampler that the variables of the SDK name.
    let provider = SdkTracerProvider::builder().with_resource(resource(random)).with_span_processor(batches).build();
    Ok((provider.tracer("handbill"), Exports(provider)))
}

/// The client of the thread that exports spans, which waits for nothing else.
#[derive(Debug)]
struct CollectorClient(Agent);

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, mut body) = self.0.run(request.map(|bytes| bytes.to_vec()))?.into_parts();
        let bytes = body.with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(head, bytes.into()))
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

/// The attributes that describe the process in every message. `OTEL_RESOURCE_ATTRIBUTES` adds attributes and overrides these.
fn resource(mut random: &Random) -> Resource {
    let own = [
        KeyValue::new("service.name", "handbill"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", format!("{:032x}", random.random::<u128>())),
    ];
    Resource::builder_empty()
        .with_attributes(own)
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()))
        .build()
}
