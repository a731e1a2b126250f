//! The instruments of a replica's part in the cluster, which stay at zero with the embedded store, and of writers who
//! wait for each other.

use handbill_core::service::TurnMetrics;
use handbill_store_cql::Progress;
use handbill_store_cql::metrics::{ClusterMetrics, PermitLabels, RetryLabels, UnsentLabels};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnLabels {
    /// `at_once`, `waited`, or `skipped` if the turn did not come in time and the writer went on without it.
    outcome: &'static str,
}

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

/// The counters of turns in `registry`.
pub(super) fn turns(registry: &mut Registry) -> TurnMetrics {
    let turns = Family::<TurnLabels, Counter>::default();
    registry.register("handbill_write_turns", "Turns of those who change a page in this replica", turns.clone());
    let turns = |outcome| turns.get_or_create(&TurnLabels { outcome }).clone();
    TurnMetrics { at_once: turns("at_once"), waited: turns("waited"), skipped: turns("skipped") }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Metrics;

    #[test]
    fn each_turn_of_a_writer_is_shown_by_its_outcome() {
        let metrics = Metrics::new();
        let TurnMetrics { at_once, waited, skipped } = &metrics.write_turns;
        at_once.inc_by(1);
        waited.inc_by(2);
        skipped.inc_by(3);
        let exposed = metrics.exposition();
        for (outcome, count) in [("at_once", 1), ("waited", 2), ("skipped", 3)] {
            let line = format!("\nhandbill_write_turns_total{{outcome=\"{outcome}\"}} {count}\n");
            assert!(exposed.contains(&line), "{exposed}");
        }
    }
}
