//! The settings that every command on the cluster itself has.

use clap::Args;

use super::{CqlSettings, LogSettings, StoreKind, StoreSettings};

/// The settings of the cluster, and of the log. `migrate` has only these.
#[derive(Args, Debug)]
pub struct ClusterSettings {
    #[command(flatten, next_help_heading = "Store")]
    pub store: StoreSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    pub cql: CqlSettings,
    #[command(flatten, next_help_heading = "Logs")]
    pub logs: LogSettings,
}
