//! Settings of `migrate`.

use clap::Args;

use super::{CqlSettings, KeyspaceSettings, LogSettings, StoreKind, StoreSettings, WaitSettings, WrongStore};

#[derive(Args, Debug)]
pub struct ClusterSettings {
    #[command(flatten, next_help_heading = "Store")]
    store: StoreSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    cql: CqlSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    wait: WaitSettings,
    #[command(flatten, next_help_heading = "Logs")]
    pub logs: LogSettings,
}

impl ClusterSettings {
    /// The cluster, and how long the command waits for it.
    pub fn cluster(&self) -> Result<handbill_store_cql::CqlSettings, WrongStore> {
        match self.store.store {
            other @ StoreKind::Sqlite => Err(WrongStore(other)),
            StoreKind::Scylla => Ok(self.cql.waiting(self.wait)),
        }
    }
}

#[derive(Args, Debug)]
pub struct MigrateSettings {
    #[command(flatten)]
    pub cluster: ClusterSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    keyspace: KeyspaceSettings,
}

impl MigrateSettings {
    /// The cluster, and the keyspace that is made in it; `None` if the store needs no migration. Nodes of a cluster beside such
    /// a store are an error, because a pipeline that only forgot the store must not go on.
    pub fn cluster(&self) -> Result<Option<handbill_store_cql::CqlSettings>, WrongStore> {
        let KeyspaceSettings { scylla_replication_factor: replication_factor, scylla_tablets: tablets } = self.keyspace;
        match self.cluster.cluster() {
            Ok(cluster) => Ok(Some(handbill_store_cql::CqlSettings { replication_factor, tablets, ..cluster })),
            Err(_) if self.cluster.cql.scylla_nodes.is_empty() => Ok(None),
            Err(wrong) => Err(wrong),
        }
    }
}
