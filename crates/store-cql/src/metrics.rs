//! The instruments of a replica's part in the cluster.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Label of the operations on pages that share permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PermitLabels {
    /// `read` or `write`.
    pub operation: &'static str,
}

/// Labels of an operation that was refused before the cluster was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct UnsentLabels {
    /// `read` or `write`.
    pub operation: &'static str,
    /// `no_permit` if too many others were running, `silent` if its token range is not answered.
    pub reason: &'static str,
}

/// Label of a request to the cluster that failed, or was slow, and that may be sent again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RetryLabels {
    /// `sent`, or `refused` by the budget of retries.
    pub outcome: &'static str,
}

/// The instruments. Clones share their values.
#[derive(Clone, Debug, Default)]
pub struct ClusterMetrics {
    pub in_flight: Family<PermitLabels, Gauge>,
    pub unsent: Family<UnsentLabels, Counter>,
    pub retries: Family<RetryLabels, Counter>,
}
