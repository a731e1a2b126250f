//! Settings of the commands on the store itself.

use std::num::NonZero;
use std::time::Duration;

use clap::Args;
use handbill_store_cql::{SHORTEST_AGE, Share};

use super::{
    CqlSettings, KeyspaceSettings, LogSettings, OperatorAccess, SqliteSettings, StoreKind, StoreSettings, WaitSettings,
    WrongStore,
};

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
            other @ StoreKind::Sqlite => Err(WrongStore::NoCluster(other)),
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

/// The store that a command reads or writes itself.
#[derive(Args, Debug)]
pub struct PlaceSettings {
    #[command(flatten, next_help_heading = "Store")]
    store: StoreSettings,
    #[command(flatten, next_help_heading = StoreKind::Sqlite.help_heading())]
    sqlite: SqliteSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    cql: CqlSettings,
    #[command(flatten, next_help_heading = StoreKind::Scylla.help_heading())]
    wait: WaitSettings,
}

/// The settings of `export` and `import`.
#[derive(Args, Debug)]
pub struct MovingSettings {
    #[command(flatten)]
    pub place: PlaceSettings,
    #[command(flatten, next_help_heading = "Operators' listener")]
    pub access: OperatorAccess,
}

/// The place of the records that a command works on.
pub enum Moved<'a> {
    /// The files of a store that only one process uses.
    Files(&'a SqliteSettings),
    /// A cluster, and how long the command waits for it.
    Cluster(Box<handbill_store_cql::CqlSettings>),
}

impl PlaceSettings {
    pub fn place(&self) -> Moved<'_> {
        match self.store.store {
            StoreKind::Sqlite => Moved::Files(&self.sqlite),
            StoreKind::Scylla => Moved::Cluster(Box::new(self.cql.waiting(self.wait))),
        }
    }

    /// The same for a command that works on its part `share` alone.
    pub fn place_of(&self, share: Share) -> Result<Moved<'_>, WrongStore> {
        match self.place() {
            Moved::Files(_) if share != Share::WHOLE => Err(WrongStore::NoParts(self.store.store)),
            place => Ok(place),
        }
    }
}

#[derive(Args, Debug)]
pub struct SweepSettings {
    #[command(flatten, next_help_heading = "Sweep")]
    pub options: SweepOptions,
    #[command(flatten)]
    pub cluster: ClusterSettings,
}

#[derive(Args, Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Only count the texts that would be deleted
    #[arg(long)]
    pub dry_run: bool,
    /// Keep texts younger than this; it must be far above the difference of the replicas' clocks
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = min_age)]
    pub min_age: Duration,
    /// Sweep this part alone, such as 3/8: several processes beside each other, or several days after one another
    #[arg(long, value_name = "NUMBER/OF", default_value = "1/1")]
    pub part: Share,
    /// Keys read in a second, which bounds the load on the cluster
    #[arg(long, value_name = "KEYS", default_value = "2000")]
    pub rows_per_second: NonZero<u32>,
}

fn min_age(text: &str) -> Result<Duration, String> {
    let age = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if age < SHORTEST_AGE {
        Err("give at least 10m: a younger text may belong to a write under way".to_owned())
    } else {
        Ok(age)
    }
}
