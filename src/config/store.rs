//! Settings of the page store.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Where pages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// In files of this process alone
    Embedded,
    /// In `ScyllaDB` or Cassandra, for any number of replicas; needs --scylla-nodes and --redis-url
    #[value(help = "In ScyllaDB or Cassandra, for any number of replicas; needs --scylla-nodes and --redis-url")]
    Scylla,
}

impl StoreKind {
    /// The heading in `--help` of the options that count with this store alone.
    pub const fn help_heading(self) -> &'static str {
        match self {
            Self::Embedded => "Embedded store (with --store embedded)",
            Self::Scylla => "ScyllaDB or Cassandra (with --store scylla)",
        }
    }
}

/// Which page store is used.
#[derive(Args, Debug)]
pub struct StoreSettings {
    /// Where pages are kept. Options of a store that is not chosen are ignored, whatever their values
    #[arg(long, env = "HANDBILL_STORE", value_name = "STORE", value_enum, default_value = "embedded")]
    pub store: StoreKind,
}

/// Settings of the embedded store.
#[derive(Args, Debug)]
pub struct EmbeddedSettings {
    /// Where the embedded store keeps its files; made if it is missing
    #[arg(long, env = "HANDBILL_DATA_DIR", value_name = "DIRECTORY", default_value = "./handbill-data")]
    pub data_dir: PathBuf,
}
