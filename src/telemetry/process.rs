//! Metrics of the process, under the names of Prometheus' libraries.

use std::fmt;
use std::fs;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use tracing_appender::non_blocking::ErrorCounter;

#[derive(Debug)]
pub(super) struct ProcessCollector {
    dropped_lines: Option<ErrorCounter>,
    started: f64,
}

impl ProcessCollector {
    pub(super) fn new(dropped_lines: Option<ErrorCounter>) -> Self {
        Self { dropped_lines, started: seconds(ClockId::Realtime) }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let dropped = ConstCounter::new(self.dropped_lines.as_ref().map_or(0, |lines| lines.dropped_lines() as u64));
        let help = "Log lines that were dropped because too many waited for standard error";
        dropped.encode(encoder.encode_descriptor(
            "handbill_log_lines_dropped",
            help,
            None,
            dropped.metric_type(),
        )?)?;
        let cpu = ConstCounter::new(seconds(ClockId::ProcessCPUTime));
        let help = "Processor time used, user and system";
        cpu.encode(encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), cpu.metric_type())?)?;
        let started = ConstGauge::new(self.started);
        let help = "When the process started, since 1970";
        let kind = started.metric_type();
        started.encode(encoder.encode_descriptor("process_start_time", help, Some(&Unit::Seconds), kind)?)?;
        let pages = fs::read_to_string("/proc/self/statm").ok();
        let pages = pages.and_then(|statm| statm.split(' ').nth(1)?.parse::<u64>().ok());
        let resident = pages.map(|pages| pages.saturating_mul(page_size() as u64));
        let entries = |directory| fs::read_dir(directory).ok().map(|entries| entries.count() as u64);
        for (name, help, unit, value) in [
            ("process_resident_memory", "Memory in use", Some(Unit::Bytes), resident),
            ("process_open_fds", "Open file descriptors", None, entries("/proc/self/fd")),
            ("process_max_fds", "The most file descriptors allowed", None, getrlimit(Resource::Nofile).current),
            ("process_threads", "Threads", None, entries("/proc/self/task")),
        ] {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, unit.as_ref(), gauge.metric_type())?)?;
        }
        Ok(())
    }
}

fn seconds(clock: ClockId) -> f64 {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default().as_secs_f64()
}
