//! Metrics of the Tokio runtime that are part of its stable interface, read on each scrape.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokio::runtime::Handle;

/// Metrics of the runtime that serves the public. Scrapes are answered in another runtime.
#[derive(Debug)]
pub(super) struct RuntimeCollector(Option<Handle>);

impl RuntimeCollector {
    pub(super) fn new() -> Self {
        Self(Handle::try_current().ok())
    }
}

impl Collector for RuntimeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let Some(handle) = &self.0 else { return Ok(()) };
        let metrics = handle.metrics();
        let mut gauge = |name, help, value: usize| {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        gauge("tokio_workers", "Threads that run tasks", metrics.num_workers())?;
        gauge("tokio_alive_tasks", "Tasks that have not ended", metrics.num_alive_tasks())?;
        gauge("tokio_global_queue_depth", "Tasks that wait for a thread", metrics.global_queue_depth())?;
        let busy: Duration = (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum();
        let busy = ConstCounter::new(busy.as_secs_f64());
        let help = "How long all threads together have run tasks";
        busy.encode(encoder.encode_descriptor("tokio_worker_busy", help, Some(&Unit::Seconds), busy.metric_type())?)
    }
}
