//! The settings that every command on the cluster itself has.

use clap::Args;

use super::{CqlSettings, KeyspaceSettings, LogSettings, StoreKind, StoreSettings, WaitSettings};

/// The settings of the cluster, and of the log.
#[derive(Args, Debug)]
pub struct ClusterSettings {
    #[command(flatten, next_help_heading = "Store")]
    pub store: StoreSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    cql: CqlSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    wait: WaitSettings,
    #[command(flatten, next_help_heading = "Logs")]
    pub logs: LogSettings,
}

impl ClusterSettings {
    /// The cluster, and how long the command waits for it.
    pub fn cql(&self) -> handbill_store_cql::CqlSettings {
        handbill_store_cql::CqlSettings { schema_wait: self.wait.schema_wait, ..self.cql.store() }
    }
}

/// The settings of `migrate`.
#[derive(Args, Debug)]
pub struct MigrateSettings {
    #[command(flatten)]
    pub cluster: ClusterSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    keyspace: KeyspaceSettings,
}

impl MigrateSettings {
    /// The cluster, and the keyspace that is made in it.
    pub fn cql(&self) -> handbill_store_cql::CqlSettings {
        let KeyspaceSettings { scylla_replication_factor, scylla_tablets } = self.keyspace;
        handbill_store_cql::CqlSettings {
            replication_factor: scylla_replication_factor,
            tablets: scylla_tablets,
            ..self.cluster.cql()
        }
    }
}
