//! Sends spans to a collector, as OTLP over HTTP. No request waits for the collector.
//!
//! Spans wait in a bounded queue. Spans that find it full, or that the collector does not accept within 5 s, are lost
//! and logged.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::{KeyValue, trace::TracerProvider};
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

/// A span takes about 1 KB.
const MAX_QUEUED_SPANS: usize = 4096;

const MAX_BATCH_SPANS: usize = 512;

/// A span waits this long for others.
const BATCH_DELAY: Duration = Duration::from_secs(5);

/// Longest wait at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// For one message, with retries.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Collectors' answers are short.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// The exporter also reads variables `OTEL_EXPORTER_OTLP_…`.
#[derive(Debug, Error)]
#[error("cannot export traces to --otlp-endpoint ({0}): correct it and the variables OTEL_…, or leave it out")]
pub struct ExportError(#[from] ExporterBuildError);

#[derive(Debug)]
pub struct Exports(SdkTracerProvider);

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
    // The builder's sampler is the one that the SDK's variables name.
    let provider = SdkTracerProvider::builder().with_resource(resource(random)).with_span_processor(batches).build();
    Ok((provider.tracer("handbill"), Exports(provider)))
}

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
    /// Spans that are not sent within `time`, and later spans, are lost.
    pub async fn flush(self, time: Duration) {
        let time = time.min(FLUSH_TIMEOUT);
        let flushed = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(time)).await;
        if let Ok(Err(error)) = flushed {
            tracing::warn!(%error, "cannot export the last spans");
        }
    }
}

/// `OTEL_RESOURCE_ATTRIBUTES` overrides these.
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
