//! Settings of the page store.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The kind of place where pages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// In files that only this process uses
    Embedded,
    /// In `ScyllaDB` or Cassandra, for any number of replicas; needs --scylla-nodes and --redis-url
    #[value(help = "In ScyllaDB or Cassandra, for any number of replicas; needs --scylla-nodes and --redis-url")]
    Scylla,
}

impl StoreKind {
    /// The name of the store that is used if none is chosen.
    const DEFAULT: &str = "embedded";

    /// The heading in `--help` of the options that apply only to this store.
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
    /// Place where pages are kept. Options of the other store are ignored, whatever their values
    #[arg(long, env = "HANDBILL_STORE", value_name = "STORE", value_enum, default_value = StoreKind::DEFAULT)]
    pub store: StoreKind,
}

impl StoreSettings {
    /// The headings in `--help` of the options that apply only to other stores than the one called `name`, or than the one
    /// that is used if none is chosen. There are none if no store has this name.
    pub fn headings_of_others(name: Option<&str>) -> Vec<&'static str> {
        let Ok(chosen) = StoreKind::from_str(name.unwrap_or(StoreKind::DEFAULT), false) else { return Vec::new() };
        StoreKind::value_variants().iter().filter(|kind| **kind != chosen).map(|kind| kind.help_heading()).collect()
    }
}

/// Settings of the embedded store.
#[derive(Args, Debug)]
pub struct EmbeddedSettings {
    /// Directory for the files of the embedded store; created if it does not exist
    #[arg(long, env = "HANDBILL_DATA_DIR", value_name = "DIRECTORY", default_value = "./handbill-data")]
    pub data_dir: PathBuf,
}

impl EmbeddedSettings {
    /// The file in which operators pause creates. It is read every second and need not exist.
    pub fn creates_file(&self) -> PathBuf {
        self.data_dir.join("creates.json")
    }
}
