//! `handbill sweep`.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::runtime::Builder;

use super::backends::swept;
use super::error::SweepError;
use crate::backends::cql as backend;
use crate::config::{SweepOptions, SweepSettings};
use crate::ports::clock::{Clock, SystemClock};
use crate::telemetry::logs::{self, LogQueue};

/// Deletes texts in the cluster that no page shows any more, and logs each tenth that is done. Returns a line for the
/// operator.
pub fn sweep(settings: &SweepSettings, log: &LogQueue) -> Result<String, SweepError> {
    logs::install(&settings.cluster.logs, log, None);
    let cluster = swept(&settings.cluster)?;
    let SweepOptions { dry_run, min_age, rows_per_second } = settings.options;
    let plan = backend::SweepPlan { dry_run, min_age, rows_per_second, now: SystemClock::new().now() };
    let logged = AtomicU8::new(0);
    let progress = |percent: u8, found: &backend::SweepReport| {
        if percent / 10 > logged.swap(percent / 10, Ordering::Relaxed) {
            tracing::info!(percent, read = found.read, unnamed = found.unnamed, headless = found.headless, "sweeping");
        }
    };
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(backend::sweep(&cluster, plan, progress))?.to_string())
}
