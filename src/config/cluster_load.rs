//! Settings of the load that a replica puts on the cluster. They apply only with `--store scylla`.

use clap::Args;

/// Settings of the load that a replica puts on the cluster.
#[derive(Args, Clone, Debug)]
pub struct ClusterLoadSettings {
    /// Reads that a replica sends to the cluster at once, and as many writes; further ones wait for a quarter of a second
    #[arg(long, env = "HANDBILL_SCYLLA_IN_FLIGHT", value_name = "OPERATIONS", default_value_t = 64, value_parser = clap::value_parser!(u16).range(4..))]
    pub scylla_in_flight: u16,
}
