//! Settings of the page store.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Where pages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// In files of this process alone
    Embedded,
    /// In `ScyllaDB` or Cassandra, for any number of replicas; needs --scylla-nodes and --redis-url
    Scylla,
}

/// Settings of the page store.
#[derive(Args, Debug)]
pub struct StoreSettings {
    /// Where pages are kept
    #[arg(long, global = true, env = "HANDBILL_STORE", value_name = "STORE", value_enum, default_value = "embedded")]
    pub store: StoreKind,
    /// Where the embedded store keeps its files; made if it is missing
    #[arg(long, global = true, env = "HANDBILL_DATA_DIR", value_name = "DIRECTORY", default_value = "./handbill-data")]
    pub data_dir: PathBuf,
}
