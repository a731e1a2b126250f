//! The state that the operators' routes share.

use std::sync::Arc;

use crate::telemetry::labels::OperatorLabels;
use crate::telemetry::logs::LogFilter;
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::audit::AuditAction;
use handbill_core::ports::creates_switch::CreatesSwitch;
use handbill_core::ports::page_scan::PageScan;
use handbill_core::service::{Operators, PublishingPolicy};

pub struct OperatorsApi {
    pub operators: Operators,
    pub records: Arc<dyn PageScan>,
    pub switch: Arc<dyn CreatesSwitch>,
    /// The policy of this process, for changes that take effect here at once.
    pub policy: PublishingPolicy,
    pub log: LogFilter,
    pub metrics: Arc<Metrics>,
}

impl OperatorsApi {
    /// Notes in the audit that `by` is about to read what `action` names, or shows more in the log. If the audit cannot be written, the
    /// log says so in its place: an export from a store that can no longer be written is the last way to its pages.
    pub(super) async fn note(&self, by: &str, action: AuditAction) {
        if let Err(error) = self.operators.record(by.to_owned(), action.clone()).await {
            tracing::error!(by, ?action, %error, "an act of an operator is not in the audit");
        }
    }

    pub(super) fn count(&self, action: &'static str, outcome: &'static str) {
        self.metrics.operator_actions.get_or_create(&OperatorLabels { action, outcome }).inc();
    }
}
