//! Settings of `migrate`.

use std::path::PathBuf;

use clap::Args;

use super::{KeyspaceSettings, LogSettings, ScyllaSettings, StoreKind, StoreSettings, WaitSettings, WrongStore};

#[derive(Args, Debug)]
pub struct ClusterSettings {
    #[command(flatten, next_help_heading = "Store")]
    store: StoreSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    scylla: ScyllaSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    wait: WaitSettings,
    #[command(flatten, next_help_heading = "Logs")]
    pub logs: LogSettings,
}

impl ClusterSettings {
    /// The cluster, and how long the command waits for it.
    pub fn cluster(&self) -> Result<handbill_store_scylla::ScyllaSettings, WrongStore> {
        match self.store.store {
            other @ StoreKind::Sqlite => Err(WrongStore(other)),
            StoreKind::Scylla => Ok(self.scylla.waiting(self.wait)),
        }
    }
}

#[derive(Args, Debug)]
pub struct MigrateSettings {
    #[command(flatten)]
    pub cluster: ClusterSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    keyspace: KeyspaceSettings,
    /// New file for the journal of deletions and hidden pages, for --replay-journal after a restore
    #[arg(long, value_name = "FILE", help_heading = "Restore")]
    pub export_journal: Option<PathBuf>,
    /// Journal that --export-journal wrote: it is applied to a restored keyspace, while no replica runs
    #[arg(long, value_name = "FILE", help_heading = "Restore")]
    pub replay_journal: Option<PathBuf>,
}

impl MigrateSettings {
    /// The cluster, and the keyspace that is made in it; `None` if the store needs no migration. Nodes of a cluster beside such
    /// a store are an error, because a pipeline that only forgot the store must not go on.
    pub fn cluster(&self) -> Result<Option<handbill_store_scylla::ScyllaSettings>, WrongStore> {
        let KeyspaceSettings { scylla_replication_factor: replication_factor } = self.keyspace;
        match self.cluster.cluster() {
            Ok(cluster) => Ok(Some(handbill_store_scylla::ScyllaSettings { replication_factor, ..cluster })),
            Err(_) if self.cluster.scylla.scylla_nodes.is_empty() => Ok(None),
            Err(wrong) => Err(wrong),
        }
    }
}
