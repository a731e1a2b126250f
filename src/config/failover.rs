//! Options of `handbill failover`.

use clap::Args;

use super::ClusterSettings;

/// The settings that `failover` uses.
#[derive(Args, Debug)]
pub struct FailoverSettings {
    #[command(flatten, next_help_heading = "Failover")]
    pub options: FailoverOptions,
    #[command(flatten)]
    pub cluster: ClusterSettings,
}

/// The options of `failover` itself.
#[derive(Args, Clone, Debug)]
pub struct FailoverOptions {
    /// Datacentre whose replicas write from then on
    #[arg(long, value_name = "DATACENTER")]
    pub to: String,
    /// Move although the other datacentre is lost. Edits, pages and deletions that only it has are lost, also those that were
    /// acknowledged in the last moments; asks whether the replicas there are stopped
    #[arg(long)]
    pub force: bool,
    /// Do not ask, because no replica of the other datacentre runs
    #[arg(long, requires = "force")]
    pub yes: bool,
    /// Do not read every page from all copies while nobody writes. Writes that the new side has missed stay missing until a
    /// repair
    #[arg(long)]
    pub skip_copy: bool,
}
