//! The instruments of a replica's part in the cluster. They stay at zero with the embedded store.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Label of a stored time that lies in the future.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ClockLabels {
    /// `database` if a server's clock has made the time, `replica` if a replica's has.
    pub clock: &'static str,
}

/// The instruments. Clones share their values.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the help of each instrument says what it counts")]
pub struct ClusterMetrics {
    pub future_times: Family<ClockLabels, Counter>,
}

impl ClusterMetrics {
    /// The instruments in `registry`. Every value of a label is at zero, so that an alert on growth sees the first event.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "handbill_store_future_times",
            "Heads of pages that were read from the cluster with a time more than 5 s ahead of this replica's clock",
            all.future_times.clone(),
        );
        for clock in ["database", "replica"] {
            let _ = all.future_times.get_or_create(&ClockLabels { clock });
        }
        all
    }
}
