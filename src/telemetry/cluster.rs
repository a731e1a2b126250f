//! How far connecting to the cluster is.

use handbill_store_scylla::Progress;

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
