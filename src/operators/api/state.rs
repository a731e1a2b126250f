//! The state that the operators' routes share.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::telemetry::labels::OperatorLabels;
use crate::telemetry::logs::{AUDIT, LogQueue};
use crate::telemetry::metrics::Metrics;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::creates_switch::CreatesSwitch;
use handbill_core::ports::page_scan::PageScan;
use handbill_core::service::{Operators, PublishingPolicy};
use handbill_store_sqlite::SqliteStore;

/// Longest time in which the log takes the lines about an act.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

/// One act of an operator, as the log has it. It has no text of a page and no key.
pub(super) struct LoggedAct<'a> {
    pub action: &'static str,
    pub slug: Option<&'a str>,
    pub reason: Option<&'static str>,
    pub by: &'a str,
    pub outcome: &'static str,
}

pub struct OperatorsApi {
    pub operators: Operators,
    pub records: Arc<dyn PageScan>,
    pub switch: Arc<dyn CreatesSwitch>,
    /// The policy of this process, for changes that take effect here at once.
    pub policy: PublishingPolicy,
    /// The queue of the log, in which the lines about acts must be written before an act is answered.
    pub log: LogQueue,
    pub metrics: Arc<Metrics>,
    pub clock: SharedClock,
    /// The store that a backup copies, if it is one of this process.
    pub sqlite: Option<Arc<SqliteStore>>,
}

impl OperatorsApi {
    /// Logs one act of an operator: whatever the filter says, and never dropped. `slug` is `None` for an act on the service.
    pub(super) fn log_act(&self, act: &LoggedAct<'_>) {
        let LoggedAct { action, slug, reason, by, outcome } = *act;
        tracing::info!(target: AUDIT, audit = true, action, slug, reason, by, outcome, "an operator acted");
        self.count(action, outcome);
    }

    /// Waits until what was logged is written, so that no act is answered before its line. If nobody reads the log, the answer
    /// comes all the same, and the line is still in the queue.
    pub(super) async fn written(&self) {
        let log = self.log.clone();
        // It does not panic.
        let _ = spawn_blocking(move || log.flush(WRITTEN_WITHIN)).await;
    }

    pub(super) fn count(&self, action: &'static str, outcome: &'static str) {
        self.metrics.operator_actions.get_or_create(&OperatorLabels { action, outcome }).inc();
    }
}
