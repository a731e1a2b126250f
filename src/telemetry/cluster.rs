//! The instruments of a replica's part in the cluster, which stay at zero with SQLite.

use handbill_store_cql::Progress;
use handbill_store_cql::metrics::{ClusterMetrics, PermitLabels, RetryLabels, UnsentLabels};
use prometheus_client::registry::Registry;

/// The instruments in `registry`. Every value of a label is at zero, so that an alert on growth sees the first event.
pub(super) fn registered(registry: &mut Registry) -> ClusterMetrics {
    let all = ClusterMetrics::default();
    registry.register(
        "handbill_store_in_flight",
        "Operations on pages that this replica runs on the cluster now",
        all.in_flight.clone(),
    );
    registry.register(
        "handbill_store_unsent",
        "Operations on pages that were refused before the cluster was asked",
        all.unsent.clone(),
    );
    registry.register(
        "handbill_store_retries",
        "Requests to the cluster that were sent again, or were not because the budget of retries was used up",
        all.retries.clone(),
    );
    for operation in ["read", "write"] {
        let _ = all.in_flight.get_or_create(&PermitLabels { operation });
        for reason in ["no_permit", "silent"] {
            let _ = all.unsent.get_or_create(&UnsentLabels { operation, reason });
        }
    }
    for outcome in ["sent", "refused"] {
        let _ = all.retries.get_or_create(&RetryLabels { outcome });
    }
    all
}

/// Reports in the log how far connecting to the cluster is. Returns the text for the answer of `/readyz` while it waits.
pub fn waits_for(progress: &Progress) -> Option<String> {
    let waiting = match progress {
        Progress::OutOfReach(reason) => format!("out of reach: {reason}"),
        Progress::Schema(state) => format!("{state}: run handbill migrate"),
        Progress::Connected => {
            tracing::info!("connected to the database");
            return None;
        }
    };
    tracing::warn!(waiting, "waiting for the database");
    Some(waiting)
}
