//! Metrics of the process under the names of Prometheus' own libraries, read from `/proc` on each scrape.

use std::fmt;

use procfs::process::{LimitValue, Process, Stat};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Metrics of this process. A value that cannot be read is left out.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    /// When the process started, in seconds since 1970.
    started: Option<f64>,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        let started = || {
            let stat = Process::myself()?.stat()?;
            #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
            let booted = procfs::boot_time_secs()? as f64;
            procfs::ProcResult::Ok(booted + seconds(stat.starttime))
        };
        Self { started: started().ok() }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let process = Process::myself().ok();
        let stat: Option<Stat> = process.as_ref().and_then(|process| process.stat().ok());
        if let Some(stat) = &stat {
            let cpu = ConstCounter::new(seconds(stat.utime + stat.stime));
            let help = "Processor time used, user and system";
            cpu.encode(encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), cpu.metric_type())?)?;
        }
        if let Some(started) = self.started {
            let started = ConstGauge::new(started);
            let help = "When the process started, since 1970";
            let kind = started.metric_type();
            started.encode(encoder.encode_descriptor("process_start_time", help, Some(&Unit::Seconds), kind)?)?;
        }
        let resident = stat.as_ref().map(|stat| stat.rss.saturating_mul(procfs::page_size()));
        let threads = stat.as_ref().and_then(|stat| u64::try_from(stat.num_threads).ok());
        let open = process.as_ref().and_then(|process| process.fd_count().ok()).map(|count| count as u64);
        let most = process.as_ref().and_then(|process| match process.limits().ok()?.max_open_files.soft_limit {
            LimitValue::Value(limit) => Some(limit),
            LimitValue::Unlimited => None,
        });
        for (name, help, unit, value) in [
            ("process_resident_memory", "Memory in use", Some(Unit::Bytes), resident),
            ("process_open_fds", "Open file descriptors", None, open),
            ("process_max_fds", "The most file descriptors allowed", None, most),
            ("process_threads", "Threads", None, threads),
        ] {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, unit.as_ref(), gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// Seconds from clock ticks, the kernel's unit.
fn seconds(ticks: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "2^52 ticks are more than a million years")]
    let (ticks, per_second) = (ticks as f64, procfs::ticks_per_second() as f64);
    ticks / per_second
}
